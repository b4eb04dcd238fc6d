package updater

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/theupdateframework/go-tuf/v2/metadata"
	"github.com/theupdateframework/go-tuf/v2/metadata/trustedmetadata"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
	"interlock.sh/internal/atomicfile"
)

//go:embed root.json
var embedded []byte

// BuiltIn is the root of trust that this program was built with; nil when it was built with none. Then
// the root of the first origin is pinned, see Pin.
func BuiltIn() []byte {
	if bytes.Equal(bytes.TrimSpace(embedded), []byte("{}")) {
		return nil
	}
	return embedded
}

var errNoRoot = errors.New("no root of trust")

// parseRoot reads a root that is signed by its own keys.
func parseRoot(b []byte) (*metadata.Metadata[metadata.RootType], error) {
	set, err := guarded(func() (*trustedmetadata.TrustedMetadata, error) { return trustedmetadata.New(b) })
	if err != nil {
		return nil, err
	}
	return set.Root, nil
}

// own is the mark of a folder of its own, "" of another one: such a folder is for the repository of another root
// than the common one, and so than the built-in one.
func (f folder) own() string {
	mark, _ := build.ReadApp(filepath.Base(string(f)))
	return mark
}

// root is the newest root of trust that the folder keeps, else the built-in one. A kept one is always of the
// right repository, and the way from it to a newer one is signed; numbers of two repositories do not compare.
// A file that a crash damaged is passed over for the copy that the metadata keeps.
func (f folder) root(builtIn []byte) ([]byte, *metadata.Metadata[metadata.RootType], error) {
	var best []byte
	var root *metadata.Metadata[metadata.RootType]
	damaged := false
	for _, path := range []string{f.rootFile(), filepath.Join(f.accepted(), "root.json")} {
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read the root of trust: %w", err)
		}
		r, err := parseRoot(b)
		if err != nil {
			damaged = true
			continue
		}
		if root == nil || r.Signed.Version > root.Signed.Version {
			best, root = b, r
		}
	}
	if root == nil && builtIn != nil && f.own() == "" {
		r, err := parseRoot(builtIn)
		if err != nil {
			return nil, nil, fmt.Errorf("read the built-in root of trust: %w", err)
		}
		best, root = builtIn, r
	}
	switch {
	case root != nil:
		return best, root, nil
	case damaged:
		return nil, nil, fault.New(fault.Conflict, "%s is damaged, and there is no other copy of the root of trust", f.rootFile()).
			WithHint("what is installed goes on; to trust the control plane's root anew, remove it and run the install line again")
	}
	return nil, nil, errNoRoot
}

// Pin makes the root that an origin serves the root of trust of an app folder, once: a folder that has a
// root, or a program with a built-in one, keeps it. It is trust on first use, over the connection that the
// client checks (certificate or pin). first says whether it was pinned now. An origin without a repository
// pins nothing; a folder of its own takes the root that it is named for and no other.
func Pin(ctx context.Context, app string, o Origin) (first bool, err error) {
	return folder(app).pin(ctx, o, BuiltIn())
}

func (f folder) pin(ctx context.Context, o Origin, builtIn []byte) (first bool, err error) {
	if _, _, err := f.root(builtIn); !errors.Is(err, errNoRoot) {
		return false, err
	}
	b, err := f.fetchRoot(ctx, o, 1)
	if err != nil || b == nil {
		return false, err
	}
	if own := f.own(); own != "" && own != ownName(b) {
		return false, fault.New(fault.Conflict, "%s has another root of trust than the one that %s is for", o.Name, f).
			WithHint("nothing of it is used; ask its operator whether the repository began anew, then run the install line again")
	}
	if err := os.MkdirAll(f.trust(), 0o700); err != nil {
		return false, fmt.Errorf("make the trust folder: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(f.trust(), firstRoot), b, 0o600); err != nil {
		return false, fmt.Errorf("pin the root of trust: %w", err)
	}
	if err := atomicfile.Write(f.rootFile(), b, 0o600); err != nil {
		return false, fmt.Errorf("pin the root of trust: %w", err)
	}
	return true, nil
}

// Fingerprint is the SHA-256 of the first root of trust that an app folder keeps, for people to compare with
// what the operator of the control plane tells them; "" when it keeps none.
func Fingerprint(app string) string {
	b, err := os.ReadFile(filepath.Join(folder(app).trust(), firstRoot))
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// firstRoot is the root that was pinned, kept to tell whether an origin has the same.
const firstRoot = "first.root.json"

// fetchRoot reads one version of an origin's root; nil when the origin has none.
func (folder) fetchRoot(ctx context.Context, o Origin, version int64) ([]byte, error) {
	b, err := fetcher{ctx, o, metadataLimit}.DownloadFile(o.path("metadata", fmt.Sprintf("%d.root.json", version)), maxRoot, 0)
	var status *metadata.ErrDownloadHTTP
	if errors.As(err, &status) && status.StatusCode == 404 {
		return nil, nil
	}
	if err != nil {
		return nil, explain(o, err)
	}
	if _, err := parseRoot(b); err != nil {
		return nil, explain(o, err)
	}
	return b, nil
}

// firstOf is the first root of the chain that leads to a trusted one.
func (f folder) firstOf(ctx context.Context, o Origin, trusted []byte, version int64) ([]byte, error) {
	first, err := f.fetchRoot(ctx, o, 1)
	if err != nil {
		return nil, err
	}
	broken := fault.New(fault.Conflict, "the first root of %s does not lead to the one that is trusted here", o.Name).
		WithHint("its fingerprint is not kept; ask its operator whether the repository began anew")
	if first == nil || version > maxRotations {
		return nil, broken
	}
	set, err := guarded(func() (*trustedmetadata.TrustedMetadata, error) { return trustedmetadata.New(first) })
	if err != nil {
		return nil, explain(o, err)
	}
	last := first
	for n := int64(2); n <= version; n++ {
		if last, err = f.fetchRoot(ctx, o, n); err != nil {
			return nil, err
		}
		if last == nil {
			return nil, broken
		}
		if _, err := guarded(func() (any, error) { return set.UpdateRoot(last) }); err != nil {
			return nil, fault.Wrap(err, fault.Conflict, "%s", broken.Message).WithHint("%s", broken.Hint)
		}
	}
	if !bytes.Equal(last, trusted) {
		return nil, broken
	}
	return first, nil
}

// Folder is the app folder for an origin: <home>/app, or one of its own, <home>/app-<8 hex>, when the
// origin has another root of trust than that folder. An origin without a repository goes with <home>/app:
// nothing will be updated from it.
func Folder(ctx context.Context, home string, o Origin) (string, error) {
	common := filepath.Join(home, build.AppFolder)
	f := folder(common)
	held, root, err := f.root(BuiltIn())
	if errors.Is(err, errNoRoot) {
		return common, nil
	}
	if err != nil {
		return "", err
	}
	first, err := f.fetchRoot(ctx, o, 1)
	if err != nil {
		return "", err
	}
	if first == nil {
		return common, nil
	}
	if pinned, err := os.ReadFile(filepath.Join(f.trust(), firstRoot)); err == nil && bytes.Equal(pinned, first) {
		return common, nil
	}
	// The built-in root may be a later one of the same chain.
	same, err := f.fetchRoot(ctx, o, root.Signed.Version)
	if err != nil {
		return "", err
	}
	if bytes.Equal(same, held) {
		return common, nil
	}
	return filepath.Join(home, build.OwnApp(ownName(first))), nil
}

// ownName is the mark of the folder of its own for a first root.
func ownName(first []byte) string {
	sum := sha256.Sum256(first)
	return hex.EncodeToString(sum[:])[:build.MarkLength]
}

// keepRoot writes a newer root of trust, so that a later pass begins with it.
func (f folder) keepRoot(b []byte, version int64) error {
	if _, held, err := f.root(nil); err == nil && held.Signed.Version >= version {
		return nil
	}
	if err := atomicfile.Write(f.rootFile(), b, 0o600); err != nil {
		return fmt.Errorf("keep the root of trust: %w", err)
	}
	return nil
}

// originsFile remembers which origins belong to an app folder, for when one of them is away.
const originsFile = "origins.json"

// Belongs says whether an app folder below home is the one for an origin. On a machine with one app folder
// all origins belong to it; where there are several, the origin is asked for its root. One that is away
// belongs where it did before, at first to the common folder.
func Belongs(ctx context.Context, home, app string, o Origin) (bool, error) {
	entries, err := os.ReadDir(home)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("list the app folders: %w", err)
	}
	common := filepath.Join(home, build.AppFolder)
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return folder(e.Name()).own() != "" }) {
		return filepath.Clean(app) == common, nil
	}
	f := folder(app)
	path := filepath.Join(f.trust(), originsFile)
	known := map[string]bool{}
	if b, err := os.ReadFile(path); err == nil && json.Unmarshal(b, &known) != nil {
		known = map[string]bool{} // damaged: asked again
	}
	at, err := Folder(ctx, home, o)
	if err != nil {
		if was, ok := known[o.Name]; ok {
			return was, nil
		}
		return filepath.Clean(app) == common, nil
	}
	is := at == filepath.Clean(app)
	if was, ok := known[o.Name]; ok && was == is {
		return is, nil
	}
	known[o.Name] = is
	b, err := json.Marshal(known)
	if err != nil {
		return is, err
	}
	if err := os.MkdirAll(f.trust(), 0o700); err != nil {
		return is, fmt.Errorf("make the trust folder: %w", err)
	}
	return is, atomicfile.Write(path, append(b, '\n'), 0o600)
}
