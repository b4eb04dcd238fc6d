package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/atomicfile"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/diskspace"
	"interlock.sh/internal/retry"
)

// Opener asks a source for its bytes from offset on. It returns the raw 2xx answer, of which Fetch
// believes nothing unchecked, or an error; see Transient for those after which Fetch tries again.
type Opener func(ctx context.Context, offset int64) (*http.Response, error)

// URLOpener opens any https address, as for model files of another origin; header may carry a token.
// The client's redirect policy and proxies hold.
func URLOpener(hc *http.Client, url string, header http.Header) Opener {
	etag := "" // of the first answer: a resumed part must be of the same version
	return func(ctx context.Context, offset int64) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		for k, v := range header {
			req.Header[k] = v
		}
		req.Header.Set("Accept-Encoding", "identity")
		if offset > 0 {
			req.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
			if etag != "" {
				req.Header.Set("If-Range", etag)
			}
		}
		resp, err := hc.Do(req)
		if err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, fault.Wrap(err, fault.Unavailable, "cannot reach %s: %s", req.URL.Host, rootText(err))
		}
		if resp.StatusCode < 200 || resp.StatusCode >= 300 {
			defer resp.Body.Close()
			return nil, refusal(resp, req.URL.Host, time.Now())
		}
		if v := resp.Header.Get("ETag"); len(v) > 1 && v[0] == '"' { // a weak one compares nothing
			etag = v
		}
		return resp, nil
	}
}

// Fetch brings the bytes of want into the file dst. They gather in dst.part, which a later call, also
// of another process, goes on with; dst appears only whole, checked and synced. It survives broken
// and silent connections, sources that ignore Range or answer another one, and damaged bytes (one
// fresh try). A full disk keeps the partial and is a fault.DiskFull that says what is needed.
func Fetch(ctx context.Context, open Opener, want Ref, dst string, t Transfer) error {
	if err := want.check(); err != nil {
		return err
	}
	t = t.withDefaults(clock.System)
	name := filepath.Base(dst)
	p, err := openPart(ctx, dst+".part", want.Size)
	if err != nil {
		return fmt.Errorf("download %s: %w", name, err)
	}
	defer p.close()
	d := &download{open: open, want: want, part: p, t: t, back: retry.Backoff{Base: 250 * time.Millisecond, Cap: 15 * time.Second}}
	if err := d.checkSpace(); err != nil {
		return fmt.Errorf("download %s: %w", name, err)
	}
	if err := d.run(ctx); err != nil {
		return fmt.Errorf("download %s: %w", name, err)
	}
	if err := p.publish(dst); err != nil {
		return fmt.Errorf("download %s: %w", name, d.diskError(err))
	}
	return nil
}

type download struct {
	open Opener
	want Ref
	part *part
	t    Transfer
	back retry.Backoff

	high     int64 // the furthest byte ever reached
	restarts int   // how often the source made it begin at zero
	damaged  int   // how often all bytes were there and their digest was wrong
}

func (d *download) run(ctx context.Context) error {
	d.t.Progress(d.part.size, d.want.Size)
	for {
		if d.part.size == d.want.Size {
			if again, err := d.verify(); err != nil || !again {
				return err
			}
			continue
		}
		err := d.attempt(ctx)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !retryable(err) {
			return err
		}
		if err := pauseTry(ctx, d.t, &d.back, err); err != nil {
			return err
		}
	}
}

// attempt reads one answer as far as it goes.
func (d *download) attempt(ctx context.Context) error {
	live, cancel := context.WithCancelCause(ctx)
	defer cancel(context.Canceled)
	head := time.AfterFunc(defaultTimeout, func() { cancel(noAnswer("the source", defaultTimeout)) })
	resp, err := d.open(live, d.part.size)
	head.Stop()
	if err != nil {
		if StatusOf(err) == http.StatusRequestedRangeNotSatisfiable && d.part.size > 0 {
			return d.startOver(fault.Wrap(err, fault.Unavailable, "the source has no byte %d", d.part.size))
		}
		return err
	}
	body := watchIdle(live, cancel, d.t.Clock, idleTimeout, resp.Body)
	defer body.Close()
	if err := d.checkAnswer(resp); err != nil {
		return err
	}
	r := &throttled{ctx: live, r: body, limiter: d.t.Limiter}
	return d.copy(r)
}

// checkAnswer makes sure that the answer's first byte is the one at the partial's end.
func (d *download) checkAnswer(resp *http.Response) error {
	if isHTML(resp.Header) {
		return interposed(resp, resp.Request.URL.Host)
	}
	switch resp.StatusCode {
	case http.StatusOK:
		if resp.ContentLength >= 0 && resp.ContentLength != d.want.Size {
			return d.wrongSize(resp.ContentLength)
		}
		if d.part.size > 0 { // Range was ignored: the bytes begin at zero
			return d.reset()
		}
		return nil
	case http.StatusPartialContent:
		from, total, ok := contentRange(resp.Header.Get("Content-Range"))
		if ok && total >= 0 && total != d.want.Size {
			return d.wrongSize(total)
		}
		if !ok || from != d.part.size {
			return d.startOver(fault.New(fault.Unavailable, "the source answered the range %q where byte %d was asked for",
				resp.Header.Get("Content-Range"), d.part.size))
		}
		return nil
	}
	return fault.New(fault.Unavailable, "the source answered with status %d", resp.StatusCode)
}

func (d *download) wrongSize(size int64) error {
	return fault.New(fault.HashMismatch, "the source has %d bytes, %d are expected", size, d.want.Size).
		With("expected", d.want.Size).With("got", size).
		WithHint("the source holds another file than the release names")
}

// startOver drops the partial, which the source cannot go on with. A source that answers wrongly
// from byte zero, or again and again, is no source.
func (d *download) startOver(why *fault.Error) error {
	d.restarts++
	if d.restarts > 3 || d.part.size == 0 {
		return &finalError{why.WithHint("the source or something before it does not serve ranges as HTTP says")}
	}
	if err := d.reset(); err != nil {
		return err
	}
	return why
}

// copy appends what r holds, up to the expected length: of a source that goes on beyond it, the
// digest says whether the beginning is the file.
func (d *download) copy(r *throttled) error {
	buf := make([]byte, pieceSize)
	for d.part.size < d.want.Size {
		n, readErr := r.Read(buf[:min(pieceSize, d.want.Size-d.part.size)])
		if err := d.part.append(buf[:n]); err != nil {
			return d.diskError(err)
		}
		if d.part.size > d.high { // bytes seen before are no progress
			d.high = d.part.size
			d.back.Reset()
		}
		if n > 0 {
			d.t.Progress(d.part.size, d.want.Size)
		}
		if readErr == nil && r.ctx.Err() != nil {
			readErr = context.Cause(r.ctx)
		}
		if readErr != nil && d.part.size < d.want.Size {
			var f *fault.Error
			if errors.As(readErr, &f) {
				return f
			}
			return fault.Wrap(readErr, fault.Unavailable, "the connection broke at byte %d of %d: %s",
				d.part.size, d.want.Size, rootText(readErr))
		}
	}
	return nil
}

// verify compares the digest. Damaged bytes are dropped, and fetched again once.
func (d *download) verify() (again bool, err error) {
	got := d.part.digest()
	if got == d.want.SHA256 {
		return false, nil
	}
	d.damaged++
	if d.damaged == 1 && d.want.Size > 0 {
		d.high = 0
		return true, d.reset()
	}
	if err := d.part.remove(); err != nil {
		return false, err
	}
	return false, fault.New(fault.HashMismatch, "the bytes are not what their digest says: expected %s, got %s", d.want.SHA256, got).
		With("expected", d.want.SHA256).With("got", got).
		WithHint("they came twice like that: the source, or something on the way, has or makes other bytes")
}

// reset drops what is there; the bytes are fetched from zero.
func (d *download) reset() error {
	if err := d.part.reset(); err != nil {
		return err
	}
	d.t.Progress(0, d.want.Size)
	return nil
}

func (d *download) checkSpace() error {
	needs := d.want.Size - d.part.size
	free, err := d.t.FreeSpace(filepath.Dir(d.part.path))
	if err != nil {
		return err
	}
	if needs <= free-d.t.SpaceFloor {
		return nil
	}
	return d.full(nil, free)
}

func (d *download) diskError(err error) error {
	if !diskspace.IsFull(err) {
		return err
	}
	free, _ := d.t.FreeSpace(filepath.Dir(d.part.path)) // zero when even that fails
	return d.full(err, free)
}

func (d *download) full(cause error, free int64) error {
	dir := filepath.Dir(d.part.path)
	needs := d.want.Size - d.part.size
	return fault.Wrap(cause, fault.DiskFull, "the disk of %s is full: needs %s and %s kept free, has %s",
		dir, bytesText(needs), bytesText(d.t.SpaceFloor), bytesText(free)).
		With("needs", needs).With("floor", d.t.SpaceFloor).With("has", free).With("path", dir).
		WithHint("free space there; what was downloaded is kept and the rest is fetched then")
}

// finalError is an answer that another try would only get again.
type finalError struct{ fault *fault.Error }

func (e *finalError) Error() string { return e.fault.Error() }
func (e *finalError) Unwrap() error { return e.fault }

func retryable(err error) bool {
	var final *finalError
	return !errors.As(err, &final) && Transient(err)
}

var rangePattern = regexp.MustCompile(`^bytes (\d+)-\d+/(\d+|\*)$`)

// contentRange reads "bytes 5-9/10"; total is -1 when the source does not tell it.
func contentRange(v string) (from, total int64, ok bool) {
	m := rangePattern.FindStringSubmatch(v)
	if m == nil {
		return 0, 0, false
	}
	from, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return 0, 0, false
	}
	if m[2] == "*" {
		return from, -1, true
	}
	total, err = strconv.ParseInt(m[2], 10, 64)
	return from, total, err == nil
}

// publish makes the partial the file dst, durably.
func (p *part) publish(dst string) error {
	if err := p.sync(); err != nil {
		return err
	}
	if err := os.Rename(p.path, dst); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(dst))
}
