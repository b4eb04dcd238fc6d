package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
)

// ahead is a digest being computed beside the upload. It runs at the speed of the disk: on a slow
// network it is there long before the last byte is sent and may find the bytes stored already; on a
// fast one it costs no extra time.
type ahead struct {
	done chan struct{}
	sum  string
	err  error
}

func hashAhead(ctx context.Context, src io.ReaderAt, size int64) *ahead {
	a := &ahead{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		h := sha256.New()
		r := io.NewSectionReader(src, 0, size)
		buf := make([]byte, pieceSize)
		for a.err == nil {
			var n int
			n, a.err = r.Read(buf)
			h.Write(buf[:n])
			if ctx.Err() != nil {
				a.err = context.Cause(ctx)
			}
		}
		if a.err == io.EOF { //nolint:errorlint // bare, as io.Reader says
			a.err = nil
		}
		a.sum = hex.EncodeToString(h.Sum(nil))
	}()
	return a
}

// known is the digest when it is there already.
func (a *ahead) known() (string, bool) {
	select {
	case <-a.done:
		return a.sum, a.err == nil
	default:
		return "", false
	}
}

func (a *ahead) wait() (string, error) {
	<-a.done
	if a.err != nil {
		return "", fmt.Errorf("hash the file: %w", a.err)
	}
	return a.sum, nil
}
