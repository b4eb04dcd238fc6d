package retry

import (
	"context"
	"errors"
	"testing"
	"time"

	"interlock.sh/internal/clock"
)

func TestBackoffGrowsToTheCapAndResets(t *testing.T) {
	b := Backoff{Base: time.Second, Cap: 5 * time.Second, Jitter: func() float64 { return 0.999999999 }}
	want := []time.Duration{1, 2, 4, 5, 5}
	for i, w := range want {
		if got := b.Next(0).Round(time.Millisecond); got != w*time.Second {
			t.Fatalf("wait %d is %v, want %v s", i, got, w)
		}
	}
	b.Reset()
	if got := b.Next(0).Round(time.Millisecond); got != time.Second {
		t.Fatalf("after Reset %v, want 1s", got)
	}
}

func TestRetryAfterIsAFloor(t *testing.T) {
	b := Backoff{Base: time.Second, Cap: time.Second, Jitter: func() float64 { return 0 }}
	if got := b.Next(7 * time.Second); got != 7*time.Second {
		t.Fatalf("wait %v, want the peer's 7s", got)
	}
}

func TestSleepEndsWithTheContextsCause(t *testing.T) {
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	if err := Sleep(ctx, clock.NewFake(time.Unix(0, 0)), time.Hour); !errors.Is(err, why) {
		t.Fatalf("err %v, want the cause", err)
	}
}
