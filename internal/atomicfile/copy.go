package atomicfile

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
)

// Copy makes path to a copy of another file under the given permissions, durably and whole or not at all.
func Copy(from, to string, perm os.FileMode) error {
	return CopyIf(from, to, perm, func([sha256.Size]byte) error { return nil })
}

// CopyIf is Copy of bytes that ok accepts by their SHA-256, as they were read for the copy: whoever can write
// to the file that is copied may have changed it since it was looked at.
func CopyIf(from, to string, perm os.FileMode, ok func(sum [sha256.Size]byte) error) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copy to %s: %w", to, err)
	}
	defer in.Close() //nolint:errcheck // read only
	dir := filepath.Dir(to)
	out, err := os.CreateTemp(dir, "."+filepath.Base(to)+".tmp-*")
	if err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(out.Name())
		}
	}()
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, sum), in)
	if err = errors.Join(err, out.Chmod(perm), out.Sync(), out.Close()); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	if err := ok(digest(sum)); err != nil {
		return err
	}
	if err := os.Rename(out.Name(), to); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return SyncDir(dir)
}

func digest(h hash.Hash) (sum [sha256.Size]byte) {
	h.Sum(sum[:0])
	return sum
}
