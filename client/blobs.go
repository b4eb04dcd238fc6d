package client

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	"github.com/dustin/go-humanize"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/diskspace"
)

const (
	uploadsPath = "/api/blobs/uploads"
	blobsPath   = "/api/blobs/"
	pieceSize   = 256 << 10
	syncEvery   = 32 << 20 // so that the last fsync of a large file finds little left
)

// Ref names bytes: the SHA-256 as 64 lower-case hex digits, and the length.
type Ref struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// check refuses a reference that no bytes can have.
func (r Ref) check() error {
	if b, err := hex.DecodeString(r.SHA256); err != nil || len(b) != 32 || strings.ToLower(r.SHA256) != r.SHA256 {
		return fault.New(fault.Invalid, "%.80q is no digest", r.SHA256).WithField("sha256").
			WithHint("a digest is the SHA-256 of the bytes as 64 lower-case hex digits")
	}
	if r.Size < 0 {
		return fault.New(fault.Invalid, "size is %d; it is a length in bytes", r.Size).WithField("size")
	}
	return nil
}

// Transfer tunes an upload or a download; the zero value is ready to use.
type Transfer struct {
	// Progress is called from the transferring goroutine with what is safe so far; done goes back
	// when a transfer has to start over.
	Progress func(done, total int64)
	// Tries is how many failures in a row without a new byte are met before giving up; 8 when 0.
	Tries int
	// SpaceFloor is what a download leaves free on the disk.
	SpaceFloor int64
	// FreeSpace asks the disk that holds a folder; the system call when nil.
	FreeSpace func(dir string) (int64, error)
	// Clock times the waits; the client's when nil.
	Clock clock.Clock
	// Pace limits how fast a download goes; nil does not.
	Pace Pace
}

func (t Transfer) withDefaults(clk clock.Clock) Transfer {
	if t.Progress == nil {
		t.Progress = func(int64, int64) {}
	}
	if t.Tries <= 0 {
		t.Tries = 8
	}
	if t.FreeSpace == nil {
		t.FreeSpace = diskspace.Free
	}
	if t.Clock == nil {
		t.Clock = clk
	}
	if t.Pace == nil {
		t.Pace = unpaced{}
	}
	return t
}

// HasBlob tells whether the control plane holds the bytes of a digest, as far as the caller may see.
func (c *Client) HasBlob(ctx context.Context, digest string) (bool, error) {
	try, cancel := context.WithTimeoutCause(ctx, defaultTimeout, noAnswer(c.base, defaultTimeout))
	defer cancel()
	resp, err := c.Open(try, http.MethodHead, blobsPath+digest)
	if StatusOf(err) == http.StatusNotFound && !Transient(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.Header.Get("ETag") != etagOf(digest) { // a portal says 200 to everything
		return false, interposed(resp, c.base)
	}
	return true, nil
}

func etagOf(digest string) string { return `"` + digest + `"` }

// Download fetches a blob of the control plane into dst; see Fetch.
func (c *Client) Download(ctx context.Context, want Ref, dst string, t Transfer) error {
	return Fetch(ctx, c.blob(want.SHA256), want, dst, t.withDefaults(c.clock))
}

// blob opens a blob from an offset on.
func (c *Client) blob(digest string) Opener {
	return func(ctx context.Context, offset int64) (*http.Response, error) {
		opts := []CallOption{
			WithHeader("Accept", "application/octet-stream"),
			WithHeader("Accept-Encoding", "identity"),
		}
		if offset > 0 {
			opts = append(opts,
				WithHeader("Range", fmt.Sprintf("bytes=%d-", offset)),
				WithHeader("If-Range", etagOf(digest)))
		}
		return c.Open(ctx, http.MethodGet, blobsPath+digest, opts...)
	}
}

func bytesText(n int64) string { return humanize.Bytes(uint64(max(n, 0))) }
