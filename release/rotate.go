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

// Replacement is a key of the root that another one takes the place of.
type Replacement struct {
	Key string     // its file's name, or eight or more digits of its id when the file is elsewhere or lost
	By  *PublicKey // nil: one that is made here
}

// Rotate makes the next root: the keys named by replace give way to others, and its life begins anew.
// The new root is signed by the thresholds of the old and of the new one, so machines follow from any root
// they know; what replaced keys had signed is signed again and live with it. The keys of both thresholds
// must be in the ring; Propose and Apply do without.
func (r *Repository) Rotate(ctx context.Context, replace []Replacement, keys *Keyring) (Published, error) {
	next, err := r.nextRoot(ctx, replace, keys)
	if err != nil {
		return Published{}, err
	}
	before, err := keys.unlockFor(ctx, &r.root().Signed, metadata.ROOT)
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
	return r.install(ctx, next, keys)
}

// Propose makes the next root as Rotate does, without a signature: its holders sign it elsewhere. New keys
// are saved; nothing names them until it is applied.
func (r *Repository) Propose(ctx context.Context, replace []Replacement, keys *Keyring) (Proposal, error) {
	for _, x := range replace {
		if _, role, err := r.findKey(&r.root().Signed, x.Key, keys); err != nil {
			return Proposal{}, err
		} else if role == metadata.ROOT && x.By == nil {
			return Proposal{}, fault.New(fault.Invalid, "key %s is a root key, and the one in its place would be made here, on the release machine", x.Key).WithField("replace").
				WithHint("its holder makes it: interlock release keys new root-4; then --replace %s=root-4.pub", x.Key)
		}
	}
	next, err := r.nextRoot(ctx, replace, keys)
	if err != nil {
		return Proposal{}, err
	}
	return Proposal{old: r.root(), next: next}, keys.save()
}

// nextRoot is the unsigned root that follows.
func (r *Repository) nextRoot(ctx context.Context, replace []Replacement, keys *Keyring) (*metadata.Metadata[metadata.RootType], error) {
	if err := r.nothingPending(); err != nil {
		return nil, err
	}
	text, err := r.root().ToBytes(false)
	if err != nil {
		return nil, fmt.Errorf("rotate keys: %w", err)
	}
	next, err := metadata.Root().FromBytes(text)
	if err != nil {
		return nil, fmt.Errorf("rotate keys: %w", err)
	}
	next.ClearSignatures()
	next.Signed.Version++
	next.Signed.Expires = r.expires(days(r.settings.RootDays))
	for _, x := range replace {
		if err := r.replaceKey(ctx, &next.Signed, x, keys); err != nil {
			return nil, err
		}
	}
	return next, nil
}

func (r *Repository) nothingPending() error {
	if !r.Pending() {
		return nil
	}
	return fault.New(fault.Conflict, "something is signed that is not published: replacing keys would make it live").
		WithHint("interlock release publish first")
}

// install makes a signed root the newest, and signs anew what is not good under it.
func (r *Repository) install(ctx context.Context, next *metadata.Metadata[metadata.RootType], keys *Keyring) (Published, error) {
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

func (r *Repository) replaceKey(ctx context.Context, root *metadata.RootType, x Replacement, keys *Keyring) error {
	id, role, err := r.findKey(root, x.Key, keys)
	if err != nil {
		return err
	}
	if x.By != nil && x.By.Role != role {
		return fault.New(fault.Invalid, "key %s is one of %s, and %s is one of %s", x.Key, role, x.By.Name, x.By.Role).WithField("replace")
	}
	if x.By != nil && root.Keys[x.By.ID] != nil {
		return fault.New(fault.Conflict, "key %s is in the root already", x.By.Name).WithField("replace").WithHint("a key takes one place")
	}
	if err := root.RevokeKey(id, role); err != nil {
		return fmt.Errorf("replace key %s: %w", x.Key, err)
	}
	if x.By != nil {
		return root.AddKey(x.By.key, role)
	}
	made, err := keys.make(ctx, role, 1)
	if err != nil {
		return err
	}
	public, err := made[0].public()
	if err != nil {
		return fmt.Errorf("replace key %s: %w", x.Key, err)
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
