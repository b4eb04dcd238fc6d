// Package files keeps the control plane's blobs: bytes on disk, named by their SHA-256, with uploads
// that resume after a broken connection or a restart.
//
// It owns the folder layout (blobs/sha256/ab/cdef…, uploads/<id>), durability (fsync, rename, fsync
// of the folder), the check of digests and of free space, and the HTTP handlers of /api/blobs. It
// does not route, does not authorize, and does not know what a blob is for: who may read a digest is
// decided by the caller, since a digest is no secret.
package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/atomicfile"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/diskspace"
)

// Defaults of Options.
const (
	DefaultChunk      int64 = 1 << 20   // what passes a default nginx; granted when the client has no wish
	DefaultMaxChunk   int64 = 8 << 20   // the most a client that asks is granted
	DefaultSpaceFloor int64 = 256 << 20 // left free for the database beside the blobs
	DefaultUploadTTL        = 24 * time.Hour
)

// Options of a store; only Dir is required.
type Options struct {
	Dir        string
	Clock      clock.Clock
	Logger     *slog.Logger
	MaxChunk   int64
	SpaceFloor int64 // bytes that stay free on the disk; negative for none
	UploadTTL  time.Duration
	// FreeSpace asks the disk that holds dir; the system call when nil.
	FreeSpace func(dir string) (int64, error)
}

// Ref names stored bytes. The digest is 64 lower-case hex digits, everywhere.
type Ref struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// Info is a stored blob as the garbage collector sees it.
type Info struct {
	Ref
	// Used is when the blob was stored, or last stored again by somebody who had the same bytes.
	Used time.Time
}

// Store is the blobs of one data folder, which one process owns. It is safe for concurrent use.
type Store struct {
	o       Options
	blobs   string
	uploads string

	place sync.Mutex // orders placing, touching and deleting a blob

	mu   sync.Mutex
	byID map[string]*upload
	keys map[resumeKey]string

	checkpoints sync.WaitGroup
}

// New opens the store in o.Dir, creating the folders, and finds the uploads that were under way.
func New(o Options) (*Store, error) {
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MaxChunk <= 0 {
		o.MaxChunk = DefaultMaxChunk
	}
	if o.SpaceFloor == 0 {
		o.SpaceFloor = DefaultSpaceFloor
	}
	o.SpaceFloor = max(o.SpaceFloor, 0)
	if o.UploadTTL <= 0 {
		o.UploadTTL = DefaultUploadTTL
	}
	if o.FreeSpace == nil {
		o.FreeSpace = diskspace.Free
	}
	s := &Store{
		o:       o,
		blobs:   filepath.Join(o.Dir, "blobs", "sha256"),
		uploads: filepath.Join(o.Dir, "uploads"),
		byID:    map[string]*upload{},
		keys:    map[resumeKey]string{},
	}
	for _, dir := range []string{s.blobs, s.uploads} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("open blob store: %w", err)
		}
	}
	if err := s.makePrefixes(); err != nil {
		return nil, fmt.Errorf("open blob store: %w", err)
	}
	if err := s.loadUploads(); err != nil {
		return nil, fmt.Errorf("open blob store: %w", err)
	}
	return s, nil
}

// makePrefixes makes the folders that blobs are spread over, so that storing one never has to: a request
// of a few hundred bytes would wait for one more fsync.
func (s *Store) makePrefixes() error {
	made := false
	for i := range 256 {
		switch err := os.Mkdir(filepath.Join(s.blobs, fmt.Sprintf("%02x", i)), 0o700); {
		case err == nil:
			made = true
		case !errors.Is(err, fs.ErrExist):
			return err
		}
	}
	if !made {
		return nil
	}
	return atomicfile.SyncDir(s.blobs)
}

// Close waits for what still runs in the background; no upload is lost by it.
func (s *Store) Close() { s.checkpoints.Wait() }

// Put stores what r holds, for blobs of a size that one request carries.
func (s *Store) Put(ctx context.Context, r io.Reader) (Ref, error) {
	if err := s.needSpace(0); err != nil {
		return Ref{}, err
	}
	f, err := os.CreateTemp(s.uploads, putPrefix+"*")
	if err != nil {
		return Ref{}, fmt.Errorf("put blob: %w", s.diskError(err, 0))
	}
	defer os.Remove(f.Name()) // gone by the rename when all went well
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), contextReader{ctx, r})
	if err != nil {
		return Ref{}, fmt.Errorf("put blob: %w", s.diskError(err, n))
	}
	ref := Ref{SHA256: hex.EncodeToString(sum.Sum(nil)), Size: n}
	if err := s.commit(f, ref); err != nil {
		return Ref{}, fmt.Errorf("put blob: %w", err)
	}
	return ref, nil
}

// RefOf names bytes, be they stored or not.
func RefOf(b []byte) Ref {
	sum := sha256.Sum256(b)
	return Ref{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(b))}
}

// PutBytes stores b. Bytes that are there already cost no write.
func (s *Store) PutBytes(ctx context.Context, b []byte) (Ref, error) {
	ref := RefOf(b)
	if s.touch(ref) {
		return ref, nil
	}
	return s.Put(ctx, bytes.NewReader(b))
}

// Open reads a blob. The reader is an *os.File, so that an HTTP answer can use sendfile.
func (s *Store) Open(digest string) (io.ReadSeekCloser, int64, error) {
	if err := CheckDigest(digest); err != nil {
		return nil, 0, err
	}
	f, err := os.Open(s.path(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, unknown(digest)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("open blob: %w", err)
	}
	st, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, 0, fmt.Errorf("open blob: %w", err)
	}
	return f, st.Size(), nil
}

// Stat is what is known of a blob without reading it.
func (s *Store) Stat(digest string) (Info, error) {
	if err := CheckDigest(digest); err != nil {
		return Info{}, err
	}
	st, err := os.Stat(s.path(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return Info{}, unknown(digest)
	}
	if err != nil {
		return Info{}, fmt.Errorf("stat blob: %w", err)
	}
	return Info{Ref: Ref{SHA256: digest, Size: st.Size()}, Used: st.ModTime()}, nil
}

// Has tells whether the bytes of a digest are stored.
func (s *Store) Has(digest string) (bool, error) {
	_, err := s.Stat(digest)
	if errors.Is(err, fault.ChecksumUnknown) {
		return false, nil
	}
	return err == nil, err
}

// CheckDigest refuses what is not 64 lower-case hex digits, so that a digest never leads anywhere
// but to a blob.
func CheckDigest(digest string) error {
	if len(digest) == hex.EncodedLen(sha256.Size) && strings.Trim(digest, "0123456789abcdef") == "" {
		return nil
	}
	return fault.New(fault.Invalid, "%q is no digest", digest[:min(len(digest), 80)]).WithField("sha256").
		WithHint("a digest is the SHA-256 of the bytes as 64 lower-case hex digits")
}

func unknown(digest string) error {
	return fault.New(fault.ChecksumUnknown, "no stored bytes have the digest %s", digest).
		With("sha256", digest).WithHint("upload the file first")
}

// contextReader ends a copy when the caller goes away.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

// Read ends with the context.
func (c contextReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}
