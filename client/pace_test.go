package client_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"

	"interlock.sh/client"
)

// stopgo is a pace that lets budget bytes through, stops, and goes on when Await is asked again.
type stopgo struct {
	budget, left int
	awaited      int
	spent        int
	refuse       error
}

func (p *stopgo) Await(context.Context) error {
	p.awaited++
	p.left = p.budget
	return p.refuse
}

func (p *stopgo) Piece(n int) int { return min(n, p.left) }

func (p *stopgo) Spend(_ context.Context, n int) error {
	p.left -= n
	p.spent += n
	return nil
}

func TestADownloadThatStopsByItsPaceGoesOnWhereItStopped(t *testing.T) {
	data, ref := noise(1 << 20)
	s := &source{data: data}
	c := s.start(t)
	pace := &stopgo{budget: 100 << 10}
	dst := filepath.Join(t.TempDir(), "m")
	// One try: a stop that is wanted is no failure.
	if err := c.Download(t.Context(), ref, dst, client.Transfer{Pace: pace, Tries: 1}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, dst, data)
	if pace.awaited != 11 || len(s.asked) != 11 || pace.spent != len(data) || s.asked[10] != "bytes=1024000-" {
		t.Errorf("awaited %d times, asked %d times, spent %d, last %q", pace.awaited, len(s.asked), pace.spent, s.asked[len(s.asked)-1])
	}
}

func TestADownloadWaitsForItsPaceBeforeItAsks(t *testing.T) {
	data, ref := noise(1000)
	s := &source{data: bytes.Clone(data)}
	c := s.start(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the owner left")
	cancel(gone)
	err := c.Download(ctx, ref, filepath.Join(t.TempDir(), "m"), client.Transfer{Pace: &stopgo{refuse: gone}})
	if !errors.Is(err, gone) || len(s.asked) != 0 {
		t.Errorf("asked %d times: %v", len(s.asked), err)
	}
}
