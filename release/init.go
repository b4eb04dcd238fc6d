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
	if _, err := os.Stat(filepath.Join(dir, metadataDir, "1.root.json")); !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Conflict, "%s is a repository of releases already: its root stays for ever", dir).
			WithHint("replace keys with: interlock release keys rotate")
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, metadataDir), 0o755), os.MkdirAll(filepath.Join(dir, targetsDir), 0o755)); err != nil {
		return nil, fmt.Errorf("make repository: %w", err)
	}
	r, err := lockDir(dir, c)
	if err != nil {
		return nil, err
	}
	r.settings = s
	if err := r.begin(ctx, layout, keys); err != nil {
		r.Close()
		return nil, fmt.Errorf("make repository: %w", err)
	}
	return r, nil
}

func (r *Repository) begin(ctx context.Context, layout Layout, keys *Keyring) error {
	root := metadata.Root(r.expires(days(r.settings.RootDays)))
	root.Signed.ConsistentSnapshot = true
	all := []Key{}
	for _, role := range []string{metadata.ROOT, metadata.SNAPSHOT, metadata.TARGETS, metadata.TIMESTAMP} {
		n := 1
		if role == metadata.ROOT {
			n = layout.RootKeys
			root.Signed.Roles[role].Threshold = layout.Threshold
		}
		made, err := keys.make(ctx, role, n)
		if err != nil {
			return err
		}
		for _, key := range made {
			public, err := key.public()
			if err != nil {
				return err
			}
			if err := root.Signed.AddKey(public, role); err != nil {
				return err
			}
		}
		if role == metadata.ROOT {
			all = made
		}
	}
	if err := sign(root, all); err != nil {
		return err
	}
	if err := keys.save(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r.settings, "", "  ")
	if err != nil {
		return err
	}
	if err := r.write(filepath.Join(r.dir, settingsName), append(text, '\n')); err != nil {
		return err
	}
	if err := r.putRoot(root); err != nil {
		return err
	}
	r.roots = append(r.roots, root)
	_, err = r.Publish(ctx, keys)
	return err
}
