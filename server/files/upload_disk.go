package files

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"interlock.sh/internal/atomicfile"
)

// loadUploads finds what an earlier process left: uploads go on, half-written rest is removed.
func (s *Store) loadUploads() error {
	entries, err := os.ReadDir(s.uploads)
	if err != nil {
		return err
	}
	for _, e := range entries {
		id, isMeta := strings.CutSuffix(e.Name(), metaSuffix)
		if !isMeta || !strings.HasPrefix(id, "up_") {
			continue
		}
		u, err := s.load(id)
		if err != nil {
			s.o.Logger.Warn("unreadable upload is dropped", "upload", id, "err", err)
			continue
		}
		s.byID[u.ID] = u
		if key := keyOf(u.Scope, u.SHA256, u.ResumeKey, u.Size); key.known() {
			s.keys[key] = u.ID
		}
	}
	for _, e := range entries {
		if s.byID[strings.TrimSuffix(e.Name(), metaSuffix)] == nil {
			if err := os.RemoveAll(filepath.Join(s.uploads, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) load(id string) (*upload, error) {
	raw, err := os.ReadFile(s.dataPath(id) + metaSuffix)
	if err != nil {
		return nil, err
	}
	u := &upload{}
	if err := json.Unmarshal(raw, &u.meta); err != nil {
		return nil, err
	}
	if u.ID != id {
		return nil, fmt.Errorf("it calls itself %q", u.ID)
	}
	st, err := os.Stat(s.dataPath(id))
	if err != nil {
		return nil, err
	}
	if st.Size() > u.Size {
		return nil, fmt.Errorf("it has %d bytes of %d", st.Size(), u.Size)
	}
	u.offset, u.used = st.Size(), st.ModTime()
	return u, nil
}

// checkpoint syncs what arrived, in the background, once enough did. The caller holds u.mu.
func (s *Store) checkpoint(u *upload) {
	if u.syncing != nil || u.offset-u.Synced < checkpointBytes || u.offset == u.Size {
		return
	}
	state, err := u.hash.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		return // without a checkpoint the bytes are hashed again after a restart
	}
	next := u.meta
	next.Synced, next.HashState = u.offset, state
	done := make(chan struct{})
	u.syncing = done
	s.checkpoints.Go(func() {
		err := s.saveCheckpoint(next)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.o.Logger.Warn("upload checkpoint", "upload", u.ID, "err", err)
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		if err == nil {
			u.Synced, u.HashState = next.Synced, next.HashState
		}
		u.syncing = nil
		close(done)
		if u.forgotten { // dropped meanwhile: the file must not come back
			_ = os.Remove(s.dataPath(u.ID) + metaSuffix)
		}
	})
}

func (s *Store) saveCheckpoint(m meta) error {
	f, err := os.Open(s.dataPath(m.ID))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return err
	}
	return s.saveMeta(m)
}

func (s *Store) saveMeta(m meta) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return atomicfile.Write(s.dataPath(m.ID)+metaSuffix, b, 0o600)
}

// create puts a new upload's files on disk.
func (s *Store) create(u *upload) error {
	f, err := os.OpenFile(s.dataPath(u.ID), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(f.Close(), s.saveMeta(u.meta))
	if err != nil {
		_ = os.Remove(s.dataPath(u.ID))
	}
	return err
}

// forget removes an upload that was sealed, on disk and in memory.
func (s *Store) forget(u *upload) {
	u.mu.Lock()
	u.forgotten = true
	u.mu.Unlock()
	_ = os.Remove(s.dataPath(u.ID)) // the blob's own file by now when the upload was finished
	_ = os.Remove(s.dataPath(u.ID) + metaSuffix)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, u.ID)
	if key := keyOf(u.Scope, u.SHA256, u.ResumeKey, u.Size); s.keys[key] == u.ID {
		delete(s.keys, key)
	}
}
