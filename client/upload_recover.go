package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"interlock.sh/fault"
	"interlock.sh/internal/retry"
)

// recover decides after a failure: nil to go on from u.up.Offset, or the error to give up with.
func (u *uploader) recover(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	u.c.log.DebugContext(ctx, "upload goes on after a failure", "offset", u.up.Offset, "chunk", u.chunk, "after", err)
	var f *fault.Error
	switch {
	case !errors.As(err, &f):
		return err
	case f.Code == fault.TooLarge:
		return u.shrink(f)
	case f.Code == fault.RangeUnsatisfiable:
		if err := pauseTry(ctx, u.t, &u.back, err); err != nil {
			return err
		}
		return u.locate(ctx)
	case f.Code == fault.NotFound && StatusOf(err) == http.StatusNotFound:
		return u.lost(ctx, err)
	case f.Code == fault.HashMismatch && StatusOf(err) != 0 && u.resumed && u.again < 2:
		u.again++ // what an earlier try left was damaged; the server dropped it
		return u.begin(ctx)
	case Transient(err) || f.Code == fault.Malformed:
		// Malformed is a chunk that broke off on its way through a proxy.
		if !u.proven && u.chunk > safeChunk {
			u.chunk = safeChunk
		}
		if err := pauseTry(ctx, u.t, &u.back, err); err != nil {
			return err
		}
		return u.locate(ctx)
	}
	return err
}

// locate asks where the upload stands; when nobody answers, the next chunk finds out.
func (u *uploader) locate(ctx context.Context) error {
	var now uploadState
	err := u.c.Do(ctx, http.MethodGet, uploadsPath+"/"+u.up.UploadID, nil, &now)
	switch {
	case err == nil:
		if now.Offset > u.up.Offset {
			u.back.Reset()
		}
		u.resumed = true
		u.up.Offset = now.Offset
		u.t.Progress(now.Offset, u.size)
		return nil
	case StatusOf(err) == http.StatusNotFound:
		return u.lost(ctx, err)
	case Transient(err):
		return nil
	}
	return err
}

// lost: the server does not know the upload. It expired, or it was finished and the answer was lost.
func (u *uploader) lost(ctx context.Context, err error) error {
	if u.up.Offset >= u.size {
		sum, hashErr := u.digest.wait()
		if hashErr != nil {
			return hashErr
		}
		if has, hasErr := u.c.HasBlob(ctx, sum); hasErr == nil && has {
			u.up.Done = true
			return nil
		}
	}
	if u.again++; u.again > 3 {
		return err
	}
	return u.begin(ctx)
}

// shrink takes a smaller chunk after a refusal of its size: the server's own limit, or the default
// one of a proxy that answers with a page.
func (u *uploader) shrink(f *fault.Error) error {
	smaller := u.chunk / 2
	if limit, ok := f.Details["limit"].(float64); ok {
		smaller = int64(limit)
	} else if u.chunk > safeChunk {
		smaller = safeChunk
	}
	if smaller < minChunk || smaller >= u.chunk {
		return f
	}
	u.chunk, u.proven = smaller, true
	return nil
}

// pauseTry waits before the next try, unless there were enough.
func pauseTry(ctx context.Context, t Transfer, back *retry.Backoff, err error) error {
	if back.Tries() >= t.Tries {
		return fmt.Errorf("%w (gave up after %d tries without a new byte)", err, t.Tries)
	}
	return pause(ctx, t.Clock, back, err)
}
