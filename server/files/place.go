package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/atomicfile"
)

// List walks all blobs in the order of their digests. The walk ends after the first error.
func (s *Store) List(ctx context.Context) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		err := filepath.WalkDir(s.blobs, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			digest := filepath.Base(filepath.Dir(path)) + d.Name()
			if !d.Type().IsRegular() || CheckDigest(digest) != nil {
				return context.Cause(ctx)
			}
			info, err := s.Stat(digest)
			if errors.Is(err, fault.ChecksumUnknown) {
				return nil // deleted meanwhile
			}
			if err == nil && !yield(info, nil) {
				return fs.SkipAll
			}
			return err
		})
		if err != nil {
			yield(Info{}, fmt.Errorf("list blobs: %w", err))
		}
	}
}

// Delete removes a blob unless it was stored, or stored again, after unusedSince; it tells whether
// it did. An uploader that was just told "already there" is thereby safe from the collector.
func (s *Store) Delete(digest string, unusedSince time.Time) (bool, error) {
	s.place.Lock()
	defer s.place.Unlock()
	info, err := s.Stat(digest)
	if errors.Is(err, fault.ChecksumUnknown) || (err == nil && info.Used.After(unusedSince)) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := os.Remove(s.path(digest)); err != nil {
		return false, fmt.Errorf("delete blob: %w", err)
	}
	return true, nil
}

// commit makes f, which is synced here, the blob of ref.
func (s *Store) commit(f *os.File, ref Ref) error {
	if s.touch(ref) {
		return os.Remove(f.Name())
	}
	now := s.o.Clock.Now()
	if err := os.Chtimes(f.Name(), now, now); err != nil {
		return s.diskError(err, 0)
	}
	if err := f.Sync(); err != nil {
		return s.diskError(fmt.Errorf("sync %s: %w", ref.SHA256, err), 0)
	}
	s.place.Lock()
	defer s.place.Unlock()
	target := s.path(ref.SHA256)
	if err := os.Rename(f.Name(), target); err != nil {
		return s.diskError(err, 0)
	}
	return atomicfile.SyncDir(filepath.Dir(target))
}

// touch notes that stored bytes are wanted again; false when they are not there in that size.
func (s *Store) touch(ref Ref) bool {
	s.place.Lock()
	defer s.place.Unlock()
	info, err := s.Stat(ref.SHA256)
	if err != nil || info.Size != ref.Size {
		return false
	}
	now := s.o.Clock.Now()
	return os.Chtimes(s.path(ref.SHA256), now, now) == nil
}

func (s *Store) path(digest string) string { return filepath.Join(s.blobs, digest[:2], digest[2:]) }
