package files

import (
	"context"
	"crypto/sha256"
	"encoding"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"interlock.sh/fault"
)

const (
	metaSuffix = ".json"
	putPrefix  = "put-"
	// checkpointBytes is how much arrives between two background syncs: so much is hashed again
	// after a restart, and Finish finds little left to sync.
	checkpointBytes = 32 << 20
)

// meta is what an upload's file beside its bytes keeps.
type meta struct {
	ID        string    `json:"id"`
	Scope     string    `json:"scope,omitempty"`
	SHA256    string    `json:"sha256,omitempty"`
	ResumeKey string    `json:"resumeKey,omitempty"`
	Size      int64     `json:"size"`
	Created   time.Time `json:"created"`
	// Synced bytes are on the disk for sure, and HashState is the state of SHA-256 over them. Bytes
	// beyond may be anything after a power cut: the digest at the end decides.
	Synced    int64  `json:"synced,omitempty"`
	HashState []byte `json:"hashState,omitempty"`
}

// upload is one upload under way.
type upload struct {
	meta // constant but for Synced and HashState

	mu        sync.Mutex
	offset    int64
	used      time.Time
	hash      hash.Hash     // over the first offset bytes; nil until needed after a restart
	sealed    bool          // being finished, or gone: nothing is written any more
	syncing   chan struct{} // closed when the running checkpoint ends; nil when none runs
	forgotten bool
}

// resumeKey finds an unfinished upload again.
type resumeKey struct {
	scope, name string
	size        int64
}

func keyOf(scope, digest, key string, size int64) resumeKey {
	name := ""
	switch {
	case digest != "":
		name = "sha256:" + digest
	case key != "":
		name = "key:" + key
	}
	return resumeKey{scope: scope, name: name, size: size}
}

func (k resumeKey) known() bool { return k.name != "" }

func (s *Store) dataPath(id string) string { return filepath.Join(s.uploads, id) }

// find is the live upload of an id. Another owner's is as unknown as one that never was.
func (s *Store) find(scope, id string) (*upload, error) {
	s.mu.Lock()
	u := s.byID[id]
	s.mu.Unlock()
	if u == nil || u.Scope != scope || s.expired(u) {
		return nil, fault.New(fault.NotFound, "no upload %q is under way", id[:min(len(id), 60)]).
			WithHint("it was finished, or given up after %s without a byte: begin again", s.o.UploadTTL)
	}
	return u, nil
}

// resume is where an unfinished upload stands; not ok when it is just ending.
func (s *Store) resume(u *upload) (Upload, bool) {
	if s.expired(u) {
		return Upload{}, false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.used = s.o.Clock.Now()
	return Upload{ID: u.ID, Offset: u.offset, Size: u.Size}, !u.sealed
}

func (s *Store) expired(u *upload) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return s.o.Clock.Now().Sub(u.used) > s.o.UploadTTL && !u.sealed
}

// expect checks the offset that a client wants to write at.
func (u *upload) expect(offset int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.standsAt(offset)
}

func (u *upload) standsAt(offset int64) error {
	if u.sealed {
		return busy()
	}
	if offset != u.offset {
		return wrongOffset(offset, u.offset)
	}
	return nil
}

// seal stops writing, once everything arrived, and waits for the running checkpoint.
func (u *upload) seal() error {
	u.mu.Lock()
	if u.sealed {
		u.mu.Unlock()
		return busy()
	}
	if u.offset != u.Size {
		defer u.mu.Unlock()
		return fault.New(fault.RangeUnsatisfiable, "the upload has %d of %d bytes", u.offset, u.Size).
			With("offset", u.offset).With("size", u.Size).WithHint("send the rest first")
	}
	u.sealed = true
	syncing := u.syncing
	u.mu.Unlock()
	if syncing != nil {
		<-syncing
	}
	return nil
}

func (u *upload) unseal() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sealed = false
}

// close stops writing for good; false when somebody finishes the upload.
func (u *upload) close() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sealed {
		return false
	}
	u.sealed = true
	return true
}

func busy() error {
	return fault.New(fault.Unavailable, "the upload is being finished").With("retryAfterSeconds", 1).
		WithHint("ask for the blob by its digest in a moment")
}

func wrongOffset(got, want int64) error {
	return fault.New(fault.RangeUnsatisfiable, "the upload stands at byte %d, the chunk is for byte %d", want, got).
		WithField("offset").With("offset", want).WithHint("go on at byte %d", want)
}

// restoreHash makes u.hash the state over the first u.offset bytes, from the last checkpoint and a
// read of what came after it. The caller holds u.mu or has sealed u.
func (u *upload) restoreHash(f *os.File) error {
	if u.hash != nil {
		return nil
	}
	h, from := sha256.New(), int64(0)
	if u.Synced > 0 && u.Synced <= u.offset {
		if h.(encoding.BinaryUnmarshaler).UnmarshalBinary(u.HashState) == nil {
			from = u.Synced
		} else {
			h = sha256.New() // written by another Go version
		}
	}
	if _, err := io.Copy(h, io.NewSectionReader(f, from, u.offset-from)); err != nil {
		return fmt.Errorf("hash what arrived before: %w", err)
	}
	u.hash = h
	return nil
}

// Expire drops the uploads that had no byte for the time to live; the server calls it now and then.
func (s *Store) Expire(ctx context.Context) (dropped int, err error) {
	s.mu.Lock()
	var old []*upload
	for _, u := range s.byID {
		if s.expired(u) {
			old = append(old, u)
		}
	}
	s.mu.Unlock()
	for _, u := range old {
		if err := context.Cause(ctx); err != nil {
			return dropped, err
		}
		if u.close() {
			s.forget(u)
			dropped++
		}
	}
	return dropped, nil
}
