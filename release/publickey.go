package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"interlock.sh/fault"
	"interlock.sh/internal/atomicfile"
)

const publicSuffix = ".pub"

// PublicKey is what everybody may know of a key: its holder gives it to the release machine, and the key
// itself stays where it was made.
type PublicKey struct {
	Name string // of its file, without the suffix
	Role string
	ID   string
	key  *metadata.Key
}

// publicFile is a public key on disk.
type publicFile struct {
	Schema int           `json:"schema"`
	Role   string        `json:"role"`
	ID     string        `json:"keyId"`
	Key    *metadata.Key `json:"key"`
}

// NewKey makes a key of that name, such as root-4, in the first folder of the ring, and beside it the file
// with its public half, whose path it gives.
func NewKey(ctx context.Context, name string, keys *Keyring) (k PublicKey, path string, err error) {
	role, _, _ := strings.Cut(name, "-")
	if !keyName.MatchString(name) || !isRole(role) || role == name {
		return k, "", fault.New(fault.Invalid, "%.60q is no name of a key: a role (%s), a hyphen, and a number", name, strings.Join(metadata.TOP_LEVEL_ROLE_NAMES[:], ", ")).
			WithField("name").WithHint("for example root-4")
	}
	made, err := keys.makeNamed(ctx, name, role)
	if err != nil {
		return k, "", err
	}
	public, err := made.public()
	if err != nil {
		return k, "", fmt.Errorf("make key %s: %w", name, err)
	}
	if k.ID, err = public.ID(); err != nil {
		return k, "", fmt.Errorf("make key %s: %w", name, err)
	}
	k.Name, k.Role, k.key = name, role, public
	text, err := json.MarshalIndent(publicFile{Schema: keySchema, Role: role, ID: k.ID, Key: public}, "", "  ")
	if err != nil {
		return k, "", fmt.Errorf("encode key %s: %w", name, err)
	}
	if err := keys.save(); err != nil {
		return k, "", err
	}
	path = filepath.Join(keys.dirs[0], name+publicSuffix)
	return k, path, atomicfile.Write(path, append(text, '\n'), 0o644)
}

// ReadPublicKey reads what NewKey wrote.
func ReadPublicKey(path string) (PublicKey, error) {
	text, err := readBounded(path, maxKeyFile)
	if errors.Is(err, os.ErrNotExist) {
		return PublicKey{}, fault.Wrap(err, fault.NotFound, "there is no file %s", path)
	}
	if err != nil {
		return PublicKey{}, fmt.Errorf("read public key: %w", err)
	}
	var f publicFile
	if err := json.Unmarshal(text, &f); err != nil || f.Schema != keySchema || f.Key == nil || !isRole(f.Role) {
		return PublicKey{}, fault.New(fault.Invalid, "%s is no public key of this program", path).
			WithHint("its holder makes it: interlock release keys new root-4; the .pub file is what leaves their hands")
	}
	if _, err := f.Key.ToPublicKey(); err != nil {
		return PublicKey{}, fault.Wrap(err, fault.Invalid, "the public key in %s cannot be read: %v", path, err)
	}
	id, err := f.Key.ID()
	if err != nil || id != f.ID {
		return PublicKey{}, fault.New(fault.Invalid, "%s holds another key than it says", path).WithHint("get it from its holder again")
	}
	return PublicKey{Name: strings.TrimSuffix(filepath.Base(path), publicSuffix), Role: f.Role, ID: id, key: f.Key}, nil
}

func isRole(name string) bool {
	for _, role := range metadata.TOP_LEVEL_ROLE_NAMES {
		if role == name {
			return true
		}
	}
	return false
}
