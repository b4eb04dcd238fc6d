package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/diskspace"
	"interlock.sh/internal/retry"
)

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
		if errors.Is(err, errHeld) {
			continue
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
	if err := d.t.Pace.Await(ctx); err != nil {
		return err
	}
	live, cancel := context.WithCancelCause(ctx)
	defer cancel(context.Canceled)
	head := time.AfterFunc(defaultTimeout, func() { cancel(noAnswer("the source", defaultTimeout)) })
	resp, err := d.open(live, d.part.size) //nolint:bodyclose // whole or part reads and closes it
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
	return d.copy(live, body)
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
func (d *download) copy(ctx context.Context, r io.Reader) error {
	buf := make([]byte, pieceSize)
	for d.part.size < d.want.Size {
		piece := d.t.Pace.Piece(int(min(pieceSize, d.want.Size-d.part.size)))
		if piece <= 0 {
			return errHeld
		}
		n, readErr := r.Read(buf[:piece])
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
		if err := d.t.Pace.Spend(ctx, n); err != nil && readErr == nil {
			readErr = err
		}
		if readErr == nil && ctx.Err() != nil {
			readErr = context.Cause(ctx)
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

// Error is the text of the answer.
func (e *finalError) Error() string { return e.fault.Error() }

// Unwrap is the cause.
func (e *finalError) Unwrap() error { return e.fault }

func retryable(err error) bool {
	var final *finalError
	return !errors.As(err, &final) && Transient(err)
}
