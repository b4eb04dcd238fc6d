package updater

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"howett.net/plist"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
	"interlock.sh/internal/atomicfile"
)

// Bundle is a program that is a folder of its own, outside of the app folder, and is released as one
// archive: an app of macOS for every processor.
type Bundle struct {
	Program string
	Path    string // the folder, as in ~/Applications/Nightshift.app; one that is not there is not made
}

const (
	bundleStaging = ".interlock-staging-" // beside the folder: a rename stays on one disk
	maxBundled    = 2 << 30               // bytes of all files of a bundle
	maxFiles      = 10_000
)

// refreshBundle brings the bundle to its newest version, by one exchange of folders. The app sees by itself
// that its file is another one.
func (u *Updater) refreshBundle(ctx context.Context, st *state, o *offer) error {
	b := u.Bundle
	if b == nil {
		return nil
	}
	if at, err := os.Lstat(b.Path); err != nil || !at.IsDir() {
		return nil //nolint:nilerr // its owner has none
	}
	current, err := bundleVersion(b.Path)
	if err != nil { // one that cannot be told is replaced
		current = ""
	}
	t, _, ok := build.Pick(o.best.targets(), build.Want{Program: b.Program, OS: "darwin", Arch: build.Universal, Current: current, Channel: st.Channel, Machine: u.Machine, Quarantined: st.kept(b.Program)})
	if !ok || t.Version == current {
		return nil
	}
	if err := u.newBundle(ctx, o, *b, t); err != nil {
		return u.stays(ctx, st, t, err)
	}
	u.log.InfoContext(ctx, "an app is new", "path", b.Path, "version", t.Version)
	return nil
}

// newBundle puts a version in the place of the bundle.
func (u *Updater) newBundle(ctx context.Context, o *offer, b Bundle, t build.Target) error {
	left, err := os.ReadDir(filepath.Dir(b.Path))
	if err != nil {
		return fmt.Errorf("look for what an interrupted update left: %w", err)
	}
	for _, e := range left {
		if !strings.HasPrefix(e.Name(), bundleStaging) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(filepath.Dir(b.Path), e.Name())); err != nil {
			return fmt.Errorf("clear what an interrupted update left: %w", err)
		}
	}
	dir, err := os.MkdirTemp(filepath.Dir(b.Path), bundleStaging)
	if err != nil {
		return cannotWrite(b.Path, err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the next one clears what stays
	archive := filepath.Join(dir, "archive.zip")
	if _, err := u.download(ctx, o, t, archive); err != nil {
		return err
	}
	fresh := filepath.Join(dir, "fresh")
	if err := unpack(archive, fresh); err != nil {
		if c := fault.CodeOf(err); c == fault.Invalid || c == fault.TooLarge {
			return unfitError{err}
		}
		return err
	}
	fresh = filepath.Join(fresh, filepath.Base(b.Path))
	if is, err := bundleVersion(fresh); err != nil || is != t.Version {
		return unfitError{fault.New(fault.Invalid, "the archive of %s %s holds no %s of that version (%q, %v)", b.Program, t.Version, filepath.Base(b.Path), is, err)}
	}
	program := filepath.Join("Contents", "MacOS", b.Program)
	if err := u.tryInstead(ctx, b.Program, filepath.Join(b.Path, program), filepath.Join(fresh, program)); err != nil {
		return err
	}
	if err := atomicfile.Exchange(fresh, b.Path); err != nil {
		return cannotWrite(b.Path, err)
	}
	return nil
}

// bundleVersion is what the bundle says of itself.
func bundleVersion(bundle string) (string, error) {
	b, err := os.ReadFile(filepath.Join(bundle, "Contents", "Info.plist"))
	if err != nil {
		return "", err
	}
	var info struct {
		Version string `plist:"CFBundleShortVersionString"`
	}
	if _, err := plist.Unmarshal(b, &info); err != nil {
		return "", fmt.Errorf("read Info.plist: %w", err)
	}
	return info.Version, nil
}

// unpack writes the files of a verified archive into a new folder, durably. It takes plain files and folders
// alone, none of them outside, and so many bytes.
func unpack(archive, to string) error {
	r, err := zip.OpenReader(archive)
	if err != nil {
		return fault.Wrap(err, fault.Invalid, "the archive cannot be read: %v", err)
	}
	defer r.Close() //nolint:errcheck // read only
	if len(r.File) > maxFiles {
		return fault.New(fault.TooLarge, "the archive has %d files; an app has at most %d", len(r.File), maxFiles)
	}
	left := int64(maxBundled)
	for _, f := range r.File {
		if strings.HasPrefix(f.Name, "__MACOSX/") { // attributes that the Finder keeps: nothing of the app's
			continue
		}
		name := path.Clean(f.Name)
		mode := f.Mode()
		if !filepath.IsLocal(name) || strings.Contains(f.Name, `\`) || !mode.IsDir() && !mode.IsRegular() {
			return fault.New(fault.Invalid, "the archive has %.80q, which is no plain file inside of it", f.Name)
		}
		at := filepath.Join(to, filepath.FromSlash(name))
		if mode.IsDir() {
			if err := os.MkdirAll(at, 0o755); err != nil {
				return fmt.Errorf("unpack: %w", err)
			}
			continue
		}
		n, err := unpackFile(f, at, left)
		if err != nil {
			return err
		}
		left -= n
	}
	return nil
}

func unpackFile(f *zip.File, at string, most int64) (n int64, err error) {
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return 0, taken(f, err)
	}
	in, err := f.Open()
	if err != nil {
		return 0, fmt.Errorf("unpack %s: %w", f.Name, err)
	}
	defer in.Close() //nolint:errcheck // read only
	mode := os.FileMode(0o644)
	if f.Mode()&0o111 != 0 {
		mode = 0o755
	}
	out, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return 0, taken(f, err)
	}
	n, err = io.Copy(out, io.LimitReader(in, most+1))
	if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
		return n, fmt.Errorf("unpack %s: %w", f.Name, err)
	}
	if n > most {
		return n, fault.New(fault.TooLarge, "the archive holds more than the %d bytes that an app may have", int64(maxBundled))
	}
	return n, nil
}

// taken tells an archive that has one name for two things from a disk that fails.
func taken(f *zip.File, err error) error {
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) {
		return fault.Wrap(err, fault.Invalid, "the archive has %.80q twice, or a file where it has a folder", f.Name)
	}
	return fmt.Errorf("unpack %s: %w", f.Name, err)
}
