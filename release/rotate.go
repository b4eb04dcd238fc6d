package release

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"interlock.sh/fault"
)

// minIDPrefix is how much of a key's id names it.
const minIDPrefix = 8

// Rotate makes the next root: the keys named by replace give way to new ones, and its life begins anew.
// A key is named by its file, or by eight or more digits of its id when the file is lost. The new root is
// signed by the thresholds of the old and of the new one, so machines follow from any root they know;
// what replaced keys had signed is signed again and live with it.
func (r *Repository) Rotate(ctx context.Context, replace []string, keys *Keyring) (Published, error) {
	if r.Pending() {
		return Published{}, fault.New(fault.Conflict, "something is signed that is not published: replacing keys would make it live").
			WithHint("interlock release publish first")
	}
	old := r.root()
	text, err := old.ToBytes(false)
	if err != nil {
		return Published{}, fmt.Errorf("rotate keys: %w", err)
	}
	next, err := metadata.Root().FromBytes(text)
	if err != nil {
		return Published{}, fmt.Errorf("rotate keys: %w", err)
	}
	next.Signed.Version++
	next.Signed.Expires = r.expires(days(r.settings.RootDays))
	for _, name := range replace {
		if err := r.replaceKey(ctx, &next.Signed, name, keys); err != nil {
			return Published{}, err
		}
	}
	before, err := keys.unlockFor(ctx, &old.Signed, metadata.ROOT)
	if err != nil {
		return Published{}, err
	}
	after, err := keys.unlockFor(ctx, &next.Signed, metadata.ROOT)
	if err != nil {
		return Published{}, err
	}
	if err := sign(next, before, after); err != nil {
		return Published{}, err
	}
	r.roots = append(r.roots, next)
	onlyRoot := r.current()
	r.roots = r.roots[:len(r.roots)-1]
	if !onlyRoot {
		return r.commit(ctx, keys, next)
	}
	// Everything live is good under the new root: the keys of releases need not be here.
	if err := keys.save(); err != nil {
		return Published{}, err
	}
	if err := r.putRoot(next); err != nil {
		return Published{}, err
	}
	r.roots = append(r.roots, next)
	return Published{Root: next.Signed.Version}, nil
}

func (r *Repository) replaceKey(ctx context.Context, root *metadata.RootType, name string, keys *Keyring) error {
	id, role, err := r.findKey(root, name, keys)
	if err != nil {
		return err
	}
	if err := root.RevokeKey(id, role); err != nil {
		return fmt.Errorf("replace key %s: %w", name, err)
	}
	made, err := keys.make(ctx, role, 1)
	if err != nil {
		return err
	}
	public, err := made[0].public()
	if err != nil {
		return fmt.Errorf("replace key %s: %w", name, err)
	}
	return root.AddKey(public, role)
}

// findKey is the id of a key of the root, and the role that it signs.
func (r *Repository) findKey(root *metadata.RootType, name string, keys *Keyring) (id, role string, err error) {
	id, _, err = keys.byName(name)
	for _, role := range metadata.TOP_LEVEL_ROLE_NAMES {
		for _, known := range root.Roles[role].KeyIDs {
			if known == id || err != nil && len(name) >= minIDPrefix && strings.HasPrefix(known, strings.ToLower(name)) {
				return known, role, nil
			}
		}
	}
	if err != nil {
		return "", "", err
	}
	return "", "", fault.New(fault.Conflict, "key %s is in no role of the newest root", name).WithField("replace").
		WithHint("it was replaced already; interlock release status lists the keys")
}

// KeyInfo is one key of the newest root.
type KeyInfo struct {
	Role string `json:"role"`
	ID   string `json:"keyId"`
	Name string `json:"name,omitempty"` // of its file, when that is within reach
}

// Keys lists the keys of the newest root; keys may be nil.
func (r *Repository) Keys(keys *Keyring) []KeyInfo {
	var out []KeyInfo
	root := r.root().Signed
	for _, role := range metadata.TOP_LEVEL_ROLE_NAMES {
		for _, id := range root.Roles[role].KeyIDs {
			info := KeyInfo{Role: role, ID: id}
			if keys != nil {
				info.Name = keys.found[id].name
			}
			out = append(out, info)
		}
	}
	slices.SortStableFunc(out, func(a, b KeyInfo) int { return strings.Compare(a.Name, b.Name) })
	return out
}
