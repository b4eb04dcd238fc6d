package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
)

// maxRootKeys is more people than can be asked on one day.
const maxRootKeys = 9

// Layout says how many root keys there are and how many of them make a root valid.
type Layout struct {
	RootKeys  int
	Threshold int
}

// Check refuses a threshold that can never be met, and a single key that rules everything.
func (l Layout) Check() error {
	if l.RootKeys < 1 || l.RootKeys > maxRootKeys {
		return fault.New(fault.Invalid, "%d root keys were asked for; there are 1 to %d", l.RootKeys, maxRootKeys).WithField("root-keys")
	}
	if l.Threshold < 1 || l.Threshold > l.RootKeys {
		return fault.New(fault.Invalid, "the threshold of the root is %d; it is 1 to the %d keys that it has", l.Threshold, l.RootKeys).WithField("threshold")
	}
	return nil
}

// Init makes the keys and an empty repository that is live at once: a machine can pin its root before
// anything is released. The passphrases are asked for in the order of the key names.
func Init(ctx context.Context, dir string, layout Layout, s Settings, keys *Keyring, c clock.Clock) (*Repository, error) {
	if err := errors.Join(layout.Check(), s.Check()); err != nil {
		return nil, err
	}
	r, err := newDir(dir, s, c)
	if err != nil {
		return nil, err
	}
	if err := r.begin(ctx, layout, keys); err != nil {
		r.Close()
		return nil, fmt.Errorf("make repository: %w", err)
	}
	return r, nil
}

// ProposeFirst makes the keys of releases and a first root for root keys that are elsewhere: their holders
// sign it, and Apply begins the repository.
func ProposeFirst(ctx context.Context, dir string, roots []PublicKey, threshold int, s Settings, keys *Keyring, c clock.Clock) (Proposal, error) {
	if err := errors.Join(Layout{RootKeys: len(roots), Threshold: threshold}.Check(), s.Check()); err != nil {
		return Proposal{}, err
	}
	r, err := newDir(dir, s, c)
	if err != nil {
		return Proposal{}, err
	}
	defer r.Close()
	root, err := r.firstRoot(ctx, threshold, keys)
	if err != nil {
		return Proposal{}, fmt.Errorf("make repository: %w", err)
	}
	for _, k := range roots {
		if k.Role != metadata.ROOT {
			return Proposal{}, fault.New(fault.Invalid, "%s is a key of %s, and a root is signed by root keys", k.Name, k.Role).WithField("root-key")
		}
		if root.Signed.Keys[k.ID] != nil {
			return Proposal{}, fault.New(fault.Invalid, "key %s was named twice: a threshold counts different keys", k.Name).WithField("root-key")
		}
		if err := root.Signed.AddKey(k.key, metadata.ROOT); err != nil {
			return Proposal{}, fmt.Errorf("make repository: %w", err)
		}
	}
	return Proposal{next: root}, errors.Join(keys.save(), r.writeSettings())
}

// newDir makes the folder of a repository that is not there yet, and locks it.
func newDir(dir string, s Settings, c clock.Clock) (*Repository, error) {
	if _, err := os.Stat(filepath.Join(dir, metadataDir, "1.root.json")); !errors.Is(err, fs.ErrNotExist) {
		return nil, isBegun(dir)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, metadataDir), 0o755), os.MkdirAll(filepath.Join(dir, targetsDir), 0o755)); err != nil {
		return nil, fmt.Errorf("make repository: %w", err)
	}
	r, err := lockDir(dir, c)
	if err == nil {
		r.settings = s
	}
	return r, err
}

func isBegun(dir string) error {
	return fault.New(fault.Conflict, "%s is a repository of releases already: its root stays for ever", dir).
		WithHint("replace keys with: interlock release keys rotate")
}

func (r *Repository) begin(ctx context.Context, layout Layout, keys *Keyring) error {
	roots, err := keys.make(ctx, metadata.ROOT, layout.RootKeys)
	if err != nil {
		return err
	}
	root, err := r.firstRoot(ctx, layout.Threshold, keys)
	if err != nil {
		return err
	}
	if err := addKeys(&root.Signed, metadata.ROOT, roots); err != nil {
		return err
	}
	if err := sign(root, roots); err != nil {
		return err
	}
	if err := keys.save(); err != nil {
		return err
	}
	if err := r.writeSettings(); err != nil {
		return err
	}
	if err := r.putRoot(root); err != nil {
		return err
	}
	r.roots = append(r.roots, root)
	_, err = r.Publish(ctx, keys)
	return err
}

// firstRoot is a root with fresh keys of releases and no root key yet.
func (r *Repository) firstRoot(ctx context.Context, threshold int, keys *Keyring) (*metadata.Metadata[metadata.RootType], error) {
	root := metadata.Root(r.expires(days(r.settings.RootDays)))
	root.Signed.ConsistentSnapshot = true
	root.Signed.Roles[metadata.ROOT].Threshold = threshold
	for _, role := range []string{metadata.SNAPSHOT, metadata.TARGETS, metadata.TIMESTAMP} {
		made, err := keys.make(ctx, role, 1)
		if err != nil {
			return nil, err
		}
		if err := addKeys(&root.Signed, role, made); err != nil {
			return nil, err
		}
	}
	return root, nil
}

func addKeys(root *metadata.RootType, role string, keys []Key) error {
	for _, key := range keys {
		public, err := key.public()
		if err != nil {
			return err
		}
		if err := root.AddKey(public, role); err != nil {
			return err
		}
	}
	return nil
}

func (r *Repository) writeSettings() error {
	text, err := json.MarshalIndent(r.settings, "", "  ")
	if err != nil {
		return err
	}
	return r.write(filepath.Join(r.dir, settingsName), append(text, '\n'))
}
