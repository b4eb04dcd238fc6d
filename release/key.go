package release

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/theupdateframework/go-tuf/v2/metadata"

	"interlock.sh/fault"
	"interlock.sh/internal/atomicfile"
)

const (
	keySuffix     = ".key"
	keySchema     = 1
	maxKeyFile    = 16 << 10
	minPassphrase = 12

	// MinCost, DefaultCost and MaxCost bound how dear one guess of a passphrase is, as a power of two of
	// scrypt's work. 18 is about a second and 256 MiB.
	MinCost, DefaultCost, MaxCost = 14, 18, 22
)

var keyName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

// Key is an unlocked signing key.
type Key struct {
	Name    string // of its file, without the suffix
	Role    string // root, targets, snapshot or timestamp
	private ed25519.PrivateKey
}

// String is the name alone, so that a key in a message or a log shows nothing of itself.
func (k Key) String() string { return k.Name }

// GoString is String.
func (k Key) GoString() string { return k.Name }

// keyFile is a key on disk: what it is in clear, the seed under the passphrase.
type keyFile struct {
	Schema int    `json:"schema"`
	Role   string `json:"role"`
	ID     string `json:"keyId"`
	Sealed string `json:"sealed"` // armored age file of the 32-byte seed
}

// newKey makes a key.
func newKey(name, role string) (Key, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Key{}, fmt.Errorf("make key %s: %w", name, err)
	}
	return Key{Name: name, Role: role, private: private}, nil
}

// public is the key as metadata names it.
func (k Key) public() (*metadata.Key, error) {
	return metadata.KeyFromPublicKey(k.private.Public())
}

func (k Key) id() (string, error) {
	pub, err := k.public()
	if err != nil {
		return "", err
	}
	return pub.ID()
}

func (k Key) signer() (signature.Signer, error) { return signature.LoadED25519Signer(k.private) }

// CheckPassphrase refuses one that is soon guessed.
func CheckPassphrase(passphrase string) error {
	if n := len(passphrase); n < minPassphrase {
		return fault.New(fault.Invalid, "a passphrase has at least %d bytes; this one has %d", minPassphrase, n).WithField("passphrase").
			WithHint("five words that do not belong together are good")
	}
	return nil
}

// save writes the key under its passphrase into dir. It never replaces a key.
func (k Key) save(dir, passphrase string, cost int) error {
	if err := CheckPassphrase(passphrase); err != nil {
		return err
	}
	sealed, err := seal(k.private.Seed(), passphrase, cost)
	if err != nil {
		return fmt.Errorf("seal key %s: %w", k.Name, err)
	}
	id, err := k.id()
	if err != nil {
		return fmt.Errorf("name key %s: %w", k.Name, err)
	}
	text, err := json.MarshalIndent(keyFile{Schema: keySchema, Role: k.Role, ID: id, Sealed: sealed}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode key %s: %w", k.Name, err)
	}
	path := filepath.Join(dir, k.Name+keySuffix)
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return fault.New(fault.Conflict, "%s is there already, and a key is never replaced", path).WithHint("name another folder with --keys")
	}
	return atomicfile.Write(path, append(text, '\n'), 0o600)
}

func seal(secret []byte, passphrase string, cost int) (string, error) {
	to, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return "", err
	}
	to.SetWorkFactor(cost)
	var out bytes.Buffer
	lines := armor.NewWriter(&out)
	w, err := age.Encrypt(lines, to)
	if err != nil {
		return "", err
	}
	if _, err := w.Write(secret); err != nil {
		return "", err
	}
	if err := errors.Join(w.Close(), lines.Close()); err != nil {
		return "", err
	}
	return out.String(), nil
}

// sealedKey is a key file that was read and not yet unlocked.
type sealedKey struct {
	keyFile
	name string
	path string
}

// readKey reads the clear part of a key file.
func readKey(path string) (sealedKey, error) {
	name := strings.TrimSuffix(filepath.Base(path), keySuffix)
	text, err := readBounded(path, maxKeyFile)
	if err != nil {
		return sealedKey{}, fmt.Errorf("read key: %w", err)
	}
	k := sealedKey{name: name, path: path}
	if err := json.Unmarshal(text, &k.keyFile); err != nil || k.Schema != keySchema || k.ID == "" || k.Sealed == "" {
		return sealedKey{}, fault.New(fault.Invalid, "%s is no key file of this program", path).
			WithHint("a key is made by: interlock release keys init, or rotate")
	}
	return k, nil
}

// unlock opens the key with its passphrase.
func (k sealedKey) unlock(passphrase string) (Key, error) {
	who, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return Key{}, fault.New(fault.Invalid, "no passphrase was given for key %s", k.name).WithField("passphrase")
	}
	who.SetMaxWorkFactor(MaxCost)
	r, err := age.Decrypt(armor.NewReader(strings.NewReader(k.Sealed)), who)
	if err != nil {
		var wrong *age.NoIdentityMatchError
		if errors.As(err, &wrong) {
			return Key{}, fault.Wrap(err, fault.Unauthenticated, "this is not the passphrase of key %s", k.name).WithField("passphrase")
		}
		return Key{}, fault.Wrap(err, fault.Invalid, "key file %s is damaged: %v", k.path, err).WithHint("take it from its backup")
	}
	seed, err := io.ReadAll(io.LimitReader(r, ed25519.SeedSize+1))
	if err != nil || len(seed) != ed25519.SeedSize {
		return Key{}, fault.New(fault.Invalid, "key file %s is damaged: it holds no key", k.path).WithHint("take it from its backup")
	}
	key := Key{Name: k.name, Role: k.Role, private: ed25519.NewKeyFromSeed(seed)}
	if id, err := key.id(); err != nil || id != k.ID {
		return Key{}, fault.New(fault.Invalid, "key file %s holds another key than it says", k.path).WithHint("take it from its backup")
	}
	return key, nil
}

// readBounded reads a regular file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(err, fault.New(fault.Invalid, "%s is no regular file", path))
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fault.New(fault.TooLarge, "%s has more than %d bytes", path, limit).With("limit", limit)
	}
	return b, err
}
