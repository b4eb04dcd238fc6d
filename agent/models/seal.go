package models

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/atomicfile"
)

const (
	lockPoll    = 200 * time.Millisecond
	sampleBlock = 64 << 10
	samples     = 64
)

// seal is what a file looked like when its digest was last checked whole. Reading 38 GB before each
// start would take minutes; a file that has the same size, times and inode and the same sample of
// blocks is taken for unchanged. Whatever differs is checked whole again.
type seal struct {
	Size   int64  `json:"size"`
	MTime  int64  `json:"mtime"` // ns
	CTime  int64  `json:"ctime"` // ns: cannot be set back by a program
	Inode  uint64 `json:"inode"`
	Sample string `json:"sample"` // SHA-256 over evenly spaced blocks
}

func (c *Cache) sealPath(sha256 string) string { return c.Path(sha256) + ".seal" }

// seal records a file whose digest was just verified.
func (c *Cache) seal(digest string) error {
	s, err := look(c.Path(digest))
	if err != nil {
		return err
	}
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return atomicfile.Write(c.sealPath(digest), b, 0o600)
}

// Check finds out whether a file is what it should be: cheaply against its seal, or, when deep or when
// the seal does not fit, by its whole digest. A missing file is fs.ErrNotExist, a changed one
// fault.HashMismatch.
func (c *Cache) Check(ctx context.Context, f fleet.File, deep bool) error {
	now, err := look(c.Path(f.SHA256))
	if err != nil {
		return err
	}
	if now.Size != f.Size {
		return fault.New(fault.HashMismatch, "model file %s has %d bytes on disk, not %d", f.Name, now.Size, f.Size).WithHint("it is fetched again")
	}
	if !deep && c.sealed(f.SHA256, now) {
		return nil
	}
	got, err := digest(ctx, c.Path(f.SHA256))
	if err != nil {
		return err
	}
	if got != f.SHA256 {
		return fault.New(fault.HashMismatch, "model file %s changed on disk: SHA-256 %s, not %s", f.Name, got, f.SHA256).WithHint("it is fetched again")
	}
	return c.seal(f.SHA256)
}

func (c *Cache) sealed(digest string, now seal) bool {
	b, err := os.ReadFile(c.sealPath(digest))
	if err != nil {
		return false
	}
	var was seal
	return json.Unmarshal(b, &was) == nil && was == now
}

// look reads a file's size, times and sample.
func look(path string) (seal, error) {
	f, err := os.Open(path)
	if err != nil {
		return seal{}, err
	}
	defer f.Close() //nolint:errcheck // read only
	st, err := f.Stat()
	if err != nil {
		return seal{}, fmt.Errorf("look at %s: %w", path, err)
	}
	if !st.Mode().IsRegular() {
		return seal{}, fmt.Errorf("%s is no regular file: %w", path, fs.ErrInvalid)
	}
	s := seal{Size: st.Size(), MTime: st.ModTime().UnixNano()}
	s.Inode, s.CTime = inode(st)
	s.Sample, err = sample(f, st.Size())
	return s, err
}

// sample hashes evenly spaced blocks; a small file is hashed whole.
func sample(f io.ReaderAt, size int64) (string, error) {
	h := sha256.New()
	step := max(size/samples, sampleBlock)
	buf := make([]byte, sampleBlock)
	for off := int64(0); off < size; off += step {
		n, err := f.ReadAt(buf, off)
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("read model file: %w", err)
		}
		h.Write(buf[:n])
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// digestStep is how much is read between two looks at whether anybody still waits.
const digestStep = 8 << 20

func digest(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // read only
	h := sha256.New()
	for {
		_, err := io.CopyN(h, f, digestStep)
		switch {
		case errors.Is(err, io.EOF):
			return hex.EncodeToString(h.Sum(nil)), nil
		case err != nil:
			return "", fmt.Errorf("read model file: %w", err)
		case ctx.Err() != nil:
			return "", fmt.Errorf("read model file: %w", context.Cause(ctx))
		}
	}
}
