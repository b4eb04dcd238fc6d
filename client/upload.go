package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/retry"
)

const (
	safeChunk = 1 << 20  // what passes a default nginx
	wishChunk = 8 << 20  // fewer round trips where nothing stands in between
	hashFirst = 16 << 20 // up to here the digest is known before Begin, and may save the upload
	minChunk  = 64 << 10
	// uploadIdle is how long a chunk may wait for the network to take more of it, or for its answer.
	uploadIdle = 2 * time.Minute
	// finishTimeout is long, as the server syncs, and after a restart reads again, what arrived.
	finishTimeout = 15 * time.Minute
)

type uploadState struct {
	UploadID   string `json:"uploadId"`
	Offset     int64  `json:"offset"`
	ChunkBytes int64  `json:"chunkBytes"`
	Done       bool   `json:"done"`
}

// Upload sends a file and returns its reference. It goes on where an earlier try, also of a killed
// process, stopped; it survives broken connections and restarts of the server; bytes that the server
// has already are not sent.
func (c *Client) Upload(ctx context.Context, path string, t Transfer) (Ref, error) {
	f, err := os.Open(path)
	if err != nil {
		return Ref{}, fmt.Errorf("upload: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return Ref{}, fmt.Errorf("upload: %w", err)
	}
	if !st.Mode().IsRegular() {
		return Ref{}, fault.New(fault.Invalid, "%s is no regular file", path)
	}
	ref, err := c.UploadFrom(ctx, f, st.Size(), resumeKey(path, st), t)
	if err != nil {
		return Ref{}, fmt.Errorf("upload %s: %w", filepath.Base(path), err)
	}
	if now, err := f.Stat(); err != nil || now.Size() != st.Size() || !now.ModTime().Equal(st.ModTime()) {
		return Ref{}, fault.New(fault.Conflict, "%s changed while it was uploaded", path).
			WithHint("upload it again once nothing writes to it")
	}
	return ref, nil
}

// resumeKey is the same for the same unchanged file of this machine.
func resumeKey(path string, st os.FileInfo) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	host, _ := os.Hostname() // without one the path alone has to do
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %d", host, path, st.Size(), st.ModTime().UnixNano()))
	return hex.EncodeToString(sum[:])
}

// UploadFrom sends size bytes of src, as Upload does. The same resumeKey later goes on with the same
// unfinished upload; with an empty one nothing is resumed after this call.
func (c *Client) UploadFrom(ctx context.Context, src io.ReaderAt, size int64, resumeKey string, t Transfer) (Ref, error) {
	ctx, cancel := context.WithCancel(ctx)
	u := &uploader{c: c, t: t.withDefaults(c.clock), src: src, size: size, key: resumeKey, digest: hashAhead(ctx, src, size)}
	// The hasher reads src, which the caller may close once this returns.
	defer func() { cancel(); <-u.digest.done }()
	u.back = retry.Backoff{Base: 250 * time.Millisecond, Cap: 15 * time.Second}
	return u.run(ctx)
}

type uploader struct {
	c      *Client
	t      Transfer
	src    io.ReaderAt
	size   int64
	key    string
	digest *ahead
	back   retry.Backoff

	up      uploadState
	chunk   int64
	proven  bool // a chunk of the current size went through
	resumed bool // bytes of an earlier try or connection are part of it
	asked   bool // whether the server has the digest already
	again   int  // how often it began again after the server lost or refused the bytes
}

func (u *uploader) run(ctx context.Context) (Ref, error) {
	if err := u.begin(ctx); err != nil {
		return Ref{}, err
	}
	for {
		ref, done, err := u.step(ctx)
		if done || err == nil && ref.SHA256 != "" {
			return ref, err
		}
		if err == nil {
			continue
		}
		if err := u.recover(ctx, err); err != nil {
			return Ref{}, err
		}
	}
}

// step sends one chunk, or finishes.
func (u *uploader) step(ctx context.Context) (Ref, bool, error) {
	if u.up.Done {
		return u.ref()
	}
	if u.up.Offset >= u.size {
		return u.finish(ctx)
	}
	if sum, ok := u.digest.known(); ok && !u.asked && u.up.Offset > 0 {
		u.asked = true
		if has, err := u.c.HasBlob(ctx, sum); err == nil && has {
			// Left alone it would expire by itself, so a failure does not matter.
			_ = u.c.Do(ctx, http.MethodDelete, uploadsPath+"/"+u.up.UploadID, nil, nil)
			return u.ref()
		}
	}
	return Ref{}, false, u.send(ctx, min(u.chunk, u.size-u.up.Offset))
}

func (u *uploader) ref() (Ref, bool, error) {
	sum, err := u.digest.wait()
	u.t.Progress(u.size, u.size)
	return Ref{SHA256: sum, Size: u.size}, true, err
}

func (u *uploader) begin(ctx context.Context) error {
	q := struct {
		SHA256     string `json:"sha256,omitempty"`
		Size       int64  `json:"size"`
		ResumeKey  string `json:"resumeKey,omitempty"`
		ChunkBytes int64  `json:"chunkBytes"`
	}{Size: u.size, ResumeKey: u.key, ChunkBytes: wishChunk}
	if u.size <= hashFirst {
		if _, err := u.digest.wait(); err != nil {
			return err
		}
	}
	// The digest is part of what finds an unfinished upload again, so it depends on the size only.
	if u.size <= hashFirst {
		q.SHA256, u.asked = u.digest.sum, true
	}
	u.up = uploadState{}
	if err := u.c.Do(ctx, http.MethodPost, uploadsPath, q, &u.up, WithRetry(u.t.Tries)); err != nil {
		return err
	}
	u.resumed = u.up.Offset > 0
	if u.chunk == 0 {
		u.chunk = safeChunk
		if u.up.ChunkBytes > 0 {
			u.chunk = u.up.ChunkBytes
		}
	}
	u.t.Progress(u.up.Offset, u.size)
	return nil
}

func (u *uploader) send(ctx context.Context, n int64) error {
	offset := u.up.Offset
	try, cancel := context.WithCancelCause(ctx)
	sent := int64(0)
	body := watchIdle(try, cancel, u.t.Clock, uploadIdle, io.NopCloser(&counted{
		r:      io.NewSectionReader(u.src, offset, n),
		passed: func(m int64) { sent += m; u.t.Progress(offset+sent, u.size) },
	}))
	defer body.Close()
	opts := []CallOption{
		WithParam("offset", strconv.FormatInt(offset, 10)),
		WithHeader("Content-Type", "application/octet-stream"),
	}
	if n > safeChunk && !u.proven {
		// A proxy with a smaller limit then refuses before the bytes are sent, not by a reset.
		opts = append(opts, WithHeader("Expect", "100-continue"))
	}
	o := newCall(opts)
	resp, err := u.c.send(try, http.MethodPut, uploadsPath+"/"+u.up.UploadID, struct{ io.Reader }{body}, n, o)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var next struct {
		Offset int64 `json:"offset"`
	}
	if err := u.c.decode(try, resp, &next); err != nil {
		return err
	}
	if next.Offset <= offset || next.Offset > u.size {
		return fault.New(fault.Unavailable, "the server stands at byte %d after a chunk for byte %d", next.Offset, offset)
	}
	u.proven = u.proven || n > safeChunk
	u.up.Offset = next.Offset
	u.back.Reset()
	u.t.Progress(u.up.Offset, u.size)
	return nil
}

func (u *uploader) finish(ctx context.Context) (Ref, bool, error) {
	sum, err := u.digest.wait()
	if err != nil {
		return Ref{}, true, err
	}
	var got Ref
	err = u.c.Do(ctx, http.MethodPost, uploadsPath+"/"+u.up.UploadID+"/finish", Ref{SHA256: sum}, &got, WithTimeout(finishTimeout))
	if err == nil && (got.SHA256 != sum || got.Size != u.size) {
		err = fault.New(fault.HashMismatch, "the server stored %s, the file is %s", got.SHA256, sum).
			With("expected", sum).With("got", got.SHA256)
		return Ref{}, true, err
	}
	return got, err == nil, err
}

// counted tells how many bytes were read.
type counted struct {
	r      io.Reader
	passed func(n int64)
}

// Read reads from the source behind it.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.passed(int64(n))
	return n, err
}
