package files

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"interlock.sh/fault"
	"interlock.sh/internal/ident"
)

const pieceSize = 512 << 10

// BeginRequest announces an upload.
type BeginRequest struct {
	// SHA256 may be empty when the client hashes while it sends; then Finish names it.
	SHA256 string `json:"sha256,omitempty"`
	Size   int64  `json:"size"`
	// ResumeKey finds the same unfinished upload again when the digest is not known yet: any text
	// that is the same for the same file, such as a hash of path, size and change time.
	ResumeKey string `json:"resumeKey,omitempty"`
	// ChunkBytes is the largest chunk that the client would like to send; 0 has no wish.
	ChunkBytes int64 `json:"chunkBytes,omitempty"`
	// Scope separates the uploads of different owners; set by the caller, never by the client.
	Scope string `json:"-"`
}

// Upload is the state of an upload as its client needs it.
type Upload struct {
	ID         string `json:"uploadId,omitempty"`
	Offset     int64  `json:"offset"`
	Size       int64  `json:"size"`
	ChunkBytes int64  `json:"chunkBytes"`
	// Done: the bytes are stored already and there is nothing to send.
	Done bool `json:"done"`
}

// Begin starts an upload, or finds the unfinished one of the same owner with the same digest (or
// resume key) and size.
func (s *Store) Begin(ctx context.Context, q BeginRequest) (Upload, error) {
	if err := checkBegin(q); err != nil {
		return Upload{}, err
	}
	if q.SHA256 != "" && s.touch(Ref{SHA256: q.SHA256, Size: q.Size}) {
		return Upload{Offset: q.Size, Size: q.Size, ChunkBytes: s.grant(q.ChunkBytes), Done: true}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := keyOf(q.Scope, q.SHA256, q.ResumeKey, q.Size)
	if u := s.byID[s.keys[key]]; u != nil {
		if up, ok := s.resume(u); ok {
			up.ChunkBytes = s.grant(q.ChunkBytes)
			return up, s.needSpace(up.Size - up.Offset)
		}
	}
	if err := s.needSpace(q.Size); err != nil {
		return Upload{}, err
	}
	now := s.o.Clock.Now()
	u := &upload{
		meta: meta{
			ID: ident.New("up", now), Scope: q.Scope, SHA256: q.SHA256, ResumeKey: q.ResumeKey, Size: q.Size, Created: now,
		},
		used: now,
	}
	if err := s.create(u); err != nil {
		return Upload{}, fmt.Errorf("begin upload: %w", s.diskError(err, q.Size))
	}
	s.byID[u.ID] = u
	if key.known() {
		s.keys[key] = u.ID
	}
	return Upload{ID: u.ID, Size: u.Size, ChunkBytes: s.grant(q.ChunkBytes)}, nil
}

func checkBegin(q BeginRequest) error {
	if q.Size < 0 {
		return fault.New(fault.Invalid, "size is %d; it is the file's length in bytes, 0 or more", q.Size).WithField("size")
	}
	if q.ChunkBytes < 0 {
		return fault.New(fault.Invalid, "chunkBytes is %d; it is a length in bytes, or 0 for no wish", q.ChunkBytes).
			WithField("chunkBytes")
	}
	if len(q.ResumeKey) > 200 {
		return fault.New(fault.Invalid, "resumeKey has %d bytes, the limit is 200", len(q.ResumeKey)).
			WithField("resumeKey").WithHint("send a hash")
	}
	if q.SHA256 != "" {
		return CheckDigest(q.SHA256)
	}
	return nil
}

// grant is the chunk size that a client with this wish may use.
func (s *Store) grant(wish int64) int64 {
	if wish == 0 {
		wish = DefaultChunk
	}
	return min(wish, s.o.MaxChunk)
}

// Status is where an upload stands.
func (s *Store) Status(scope, id string) (Upload, error) {
	u, err := s.find(scope, id)
	if err != nil {
		return Upload{}, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return Upload{ID: u.ID, Offset: u.offset, Size: u.Size, ChunkBytes: s.grant(0)}, nil
}

// Append writes the bytes of r at offset, which must be where the upload stands, and returns the new
// offset. What arrived before an error stays. No lock is held while r is read: when a client comes
// back while its broken connection still hangs here, the new one goes on and the old one loses.
func (s *Store) Append(ctx context.Context, scope, id string, offset int64, r io.Reader) (int64, error) {
	u, err := s.find(scope, id)
	if err != nil {
		return 0, err
	}
	if err := u.expect(offset); err != nil {
		return 0, err
	}
	f, err := os.OpenFile(s.dataPath(id), os.O_RDWR, 0)
	if err != nil {
		return 0, fmt.Errorf("append to upload: %w", err)
	}
	defer f.Close()
	piece := make([]byte, pieceSize)
	start := offset
	for {
		n, readErr := readPiece(contextReader{ctx, r}, piece)
		if offset-start+int64(n) > s.o.MaxChunk {
			return offset, tooLarge(s.o.MaxChunk)
		}
		if n > 0 {
			if offset, err = s.write(u, f, offset, piece[:n]); err != nil {
				return offset, err
			}
		}
		switch {
		case readErr == io.EOF: //nolint:errorlint // bare: the chunk's end, as io.Reader says
			return offset, nil
		case readErr != nil:
			return offset, fault.Wrap(readErr, fault.Malformed, "the chunk broke off at byte %d", offset).
				With("offset", offset).WithHint("go on at byte %d", offset)
		}
	}
}

// readPiece fills p; unlike io.ReadFull it leaves apart a chunk's end and a chunk that broke off,
// which HTTP reports as io.ErrUnexpectedEOF.
func readPiece(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	return n, err
}

// write puts one piece at offset if the upload still stands there.
func (s *Store) write(u *upload, f *os.File, offset int64, piece []byte) (int64, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.standsAt(offset); err != nil {
		return u.offset, err
	}
	if u.offset+int64(len(piece)) > u.Size {
		return u.offset, fault.New(fault.Invalid, "the upload was announced with %d bytes and more arrived", u.Size).
			WithField("size").With("size", u.Size).WithHint("begin again with the file's size of now")
	}
	if err := u.restoreHash(f); err != nil {
		return u.offset, fmt.Errorf("append to upload: %w", err)
	}
	// Copying to the page cache and hashing cost about the same, so they run beside each other.
	var hashed sync.WaitGroup
	hashed.Go(func() { u.hash.Write(piece) })
	n, err := f.WriteAt(piece, u.offset)
	hashed.Wait()
	u.offset += int64(n)
	u.used = s.o.Clock.Now()
	if err != nil {
		u.hash = nil // it may be ahead of the file; read again when needed
		return u.offset, fmt.Errorf("append to upload: %w", s.diskError(err, u.Size-u.offset))
	}
	s.checkpoint(u)
	return u.offset, nil
}

// Finish checks size and digest and makes the upload a blob, durably. digest may be empty when Begin
// named it. Bytes that do not fit their digest are dropped with the upload.
func (s *Store) Finish(ctx context.Context, scope, id, digest string) (Ref, error) {
	u, err := s.find(scope, id)
	if err != nil {
		return Ref{}, err
	}
	if digest, err = wanted(u.SHA256, digest); err != nil {
		return Ref{}, err
	}
	if err := u.seal(); err != nil {
		return Ref{}, err
	}
	ref, err := s.finish(ctx, u, digest)
	if err != nil && !errors.Is(err, fault.HashMismatch) {
		u.unseal()
		return Ref{}, fmt.Errorf("finish upload: %w", err)
	}
	s.forget(u)
	return ref, err
}

func (s *Store) finish(ctx context.Context, u *upload, digest string) (Ref, error) {
	if err := context.Cause(ctx); err != nil {
		return Ref{}, err
	}
	f, err := os.OpenFile(s.dataPath(u.ID), os.O_RDWR, 0)
	if err != nil {
		return Ref{}, err
	}
	defer f.Close()
	if err := u.restoreHash(f); err != nil {
		return Ref{}, err
	}
	got := hex.EncodeToString(u.hash.Sum(nil))
	if got != digest {
		return Ref{}, fault.New(fault.HashMismatch, "the bytes that arrived are not the announced ones: expected %s, got %s", digest, got).
			With("expected", digest).With("got", got).
			WithHint("the file changed while it was sent, or was damaged on the way: upload it again")
	}
	ref := Ref{SHA256: got, Size: u.Size}
	return ref, s.commit(f, ref)
}

// wanted is the digest that an upload must have, from what Begin and Finish said.
func wanted(begin, finish string) (string, error) {
	if finish == "" {
		finish = begin
	}
	if finish == "" {
		return "", fault.New(fault.Invalid, "the digest is missing: neither begin nor finish named it").WithField("sha256").
			WithHint("send sha256 with finish")
	}
	if begin != "" && finish != begin {
		return "", fault.New(fault.Invalid, "finish names %s, begin named %s", finish, begin).WithField("sha256")
	}
	return finish, CheckDigest(finish)
}

// Drop gives an upload up.
func (s *Store) Drop(scope, id string) error {
	u, err := s.find(scope, id)
	if err != nil {
		return err
	}
	if !u.close() {
		return busy()
	}
	s.forget(u)
	return nil
}

func tooLarge(limit int64) error {
	return fault.New(fault.TooLarge, "a chunk may have %d bytes at most", limit).With("limit", limit).
		WithHint("send smaller chunks, as chunkBytes says")
}
