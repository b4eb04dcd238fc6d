package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"interlock.sh/fault"
)

// Ask gets the passphrase of a key from whoever has it. isNew is true for a key that is being made.
type Ask func(ctx context.Context, key string, isNew bool) (string, error)

// Keyring is the key files within reach, unlocked one by one as they are needed.
type Keyring struct {
	dirs  []string
	ask   Ask
	cost  int
	found map[string]sealedKey // by key id
	open  map[string]Key       // by key id
	// unsaved are keys that were made and are on no disk yet.
	unsaved []unsaved
}

// NewKeyring reads the key files of the folders; of the first one, new keys are put into it. cost is
// what new keys are sealed with; 0 is DefaultCost.
func NewKeyring(dirs []string, ask Ask, cost int) (*Keyring, error) {
	if len(dirs) == 0 {
		return nil, fault.New(fault.Invalid, "no folder of keys is named").WithField("keys").WithHint("--keys <folder>")
	}
	if cost == 0 {
		cost = DefaultCost
	}
	if cost < MinCost || cost > MaxCost {
		return nil, fault.New(fault.Invalid, "the cost of a passphrase guess is %d; it goes from %d to %d", cost, MinCost, MaxCost).WithField("cost")
	}
	k := &Keyring{dirs: dirs, ask: ask, cost: cost, found: map[string]sealedKey{}, open: map[string]Key{}}
	for _, dir := range dirs {
		files, err := os.ReadDir(dir)
		if errors.Is(err, os.ErrNotExist) {
			continue // init makes it
		}
		if err != nil {
			return nil, fmt.Errorf("read keys: %w", err)
		}
		for _, f := range files {
			if !strings.HasSuffix(f.Name(), keySuffix) || strings.HasPrefix(f.Name(), ".") {
				continue
			}
			key, err := readKey(filepath.Join(dir, f.Name()))
			if err != nil {
				return nil, err
			}
			k.found[key.ID] = key
		}
	}
	return k, nil
}

// make makes keys of a role with fresh names; save puts them on disk. Every passphrase is asked for before:
// who gives up in the middle leaves no half of a set behind.
func (k *Keyring) make(ctx context.Context, role string, n int) ([]Key, error) {
	var keys []Key
	for range n {
		key, err := k.makeNamed(ctx, k.freeName(role), role)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// makeNamed makes one key; save puts it on disk.
func (k *Keyring) makeNamed(ctx context.Context, name, role string) (Key, error) {
	for _, have := range k.found {
		if have.name == name {
			return Key{}, fault.New(fault.Conflict, "there is a key %s in %s already, and a key is never replaced", name, strings.Join(k.dirs, ", ")).
				WithHint("name it %s", k.freeName(role))
		}
	}
	key, err := newKey(name, role)
	if err != nil {
		return Key{}, err
	}
	passphrase, err := k.ask(ctx, key.Name, true)
	if err == nil {
		err = CheckPassphrase(passphrase)
	}
	if err != nil {
		return Key{}, err
	}
	id, err := key.id()
	if err != nil {
		return Key{}, err
	}
	k.found[id] = sealedKey{name: key.Name, keyFile: keyFile{Role: role, ID: id}}
	k.open[id] = key
	k.unsaved = append(k.unsaved, unsaved{key, passphrase})
	return key, nil
}

type unsaved struct {
	key        Key
	passphrase string
}

// save writes the keys that were made.
func (k *Keyring) save() error {
	if err := os.MkdirAll(k.dirs[0], 0o700); err != nil {
		return fmt.Errorf("make the folder of keys: %w", err)
	}
	for _, u := range k.unsaved {
		if err := u.key.save(k.dirs[0], u.passphrase, k.cost); err != nil {
			return err
		}
	}
	k.unsaved = nil
	return nil
}

// freeName is the role with the next number that no key file within reach has.
func (k *Keyring) freeName(role string) string {
	highest := 0
	for _, key := range k.found {
		if rest, ok := strings.CutPrefix(key.name, role+"-"); ok {
			if n, err := strconv.Atoi(rest); err == nil {
				highest = max(highest, n)
			}
		}
	}
	return role + "-" + strconv.Itoa(highest+1)
}

// byName finds the id of a key file.
func (k *Keyring) byName(name string) (id, role string, err error) {
	if !keyName.MatchString(name) {
		return "", "", fault.New(fault.Invalid, "%.60q is no name of a key", name).WithField("replace").WithHint("for example root-2 or targets-1")
	}
	for id, key := range k.found {
		if key.name == name {
			return id, key.Role, nil
		}
	}
	return "", "", fault.New(fault.NotFound, "there is no key %s in %s", name, strings.Join(k.dirs, ", ")).WithField("replace").
		WithHint("its file is needed to know the key: name its folder with --keys, or the key by the first digits of its id (interlock release status --json)")
}

// reach reports whether the files of a threshold of each release role's keys are here.
func (k *Keyring) reach(root *metadata.RootType) bool {
	for _, role := range []string{metadata.TARGETS, metadata.SNAPSHOT, metadata.TIMESTAMP} {
		if len(k.have(root.Roles[role])) < root.Roles[role].Threshold {
			return false
		}
	}
	return true
}

// have lists the key files of a role that are here.
func (k *Keyring) have(role *metadata.Role) []sealedKey {
	var out []sealedKey
	for _, id := range role.KeyIDs {
		if key, ok := k.found[id]; ok {
			out = append(out, key)
		}
	}
	return out
}

// unlockFor unlocks as many keys of a role as its threshold wants. Too few files is an error before
// anybody types a passphrase.
func (k *Keyring) unlockFor(ctx context.Context, root *metadata.RootType, role string) ([]Key, error) {
	r := root.Roles[role]
	have := k.have(r)
	if len(have) < r.Threshold {
		return nil, fault.New(fault.Invalid, "%s wants %d of its %d keys, and %d are in %s", role, r.Threshold, len(r.KeyIDs), len(have), strings.Join(k.dirs, ", ")).
			WithField("keys").WithHint("name the folders that hold the others too: --keys may be given several times").
			With("threshold", r.Threshold).With("found", len(have))
	}
	// Those that are open already first: nobody types a passphrase that is not needed.
	slices.SortStableFunc(have, func(a, b sealedKey) int {
		_, aOpen := k.open[a.ID]
		_, bOpen := k.open[b.ID]
		if aOpen != bOpen {
			if aOpen {
				return -1
			}
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	var keys []Key
	for _, sealed := range have[:r.Threshold] {
		key, err := k.unlock(ctx, sealed)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// unlock unlocks a key, once.
func (k *Keyring) unlock(ctx context.Context, sealed sealedKey) (Key, error) {
	if key, ok := k.open[sealed.ID]; ok {
		return key, nil
	}
	passphrase, err := k.ask(ctx, sealed.name, false)
	if err != nil {
		return Key{}, err
	}
	key, err := sealed.unlock(passphrase)
	if err == nil {
		k.open[sealed.ID] = key
	}
	return key, err
}

// sign replaces the signatures of m by those of keys.
func sign[T metadata.Roles](m *metadata.Metadata[T], keys ...[]Key) error {
	m.ClearSignatures()
	return addSignatures(m, keys...)
}

// addSignatures signs m by each of the keys that has not.
func addSignatures[T metadata.Roles](m *metadata.Metadata[T], keys ...[]Key) error {
	signed := map[string]bool{}
	for _, s := range m.Signatures {
		signed[s.KeyID] = true
	}
	for _, some := range keys {
		for _, key := range some {
			if id, err := key.id(); err != nil || signed[id] {
				if err != nil {
					return err
				}
				continue
			}
			s, err := key.signer()
			if err != nil {
				return fmt.Errorf("sign with %s: %w", key.Name, err)
			}
			sig, err := m.Sign(s)
			if err != nil {
				return fmt.Errorf("sign with %s: %w", key.Name, err)
			}
			signed[sig.KeyID] = true
		}
	}
	return nil
}
