package retry

import (
	"context"
	"errors"
	"testing"
	"time"

	"interlock.sh/internal/clock"
)

// hurried is a clock on which time passes when somebody waits for it.
type hurried struct{ *clock.Fake }

func (h hurried) After(d time.Duration) <-chan time.Time {
	at := h.Fake.After(d)
	h.Advance(d)
	return at
}

func TestPoll(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		within time.Duration
		looks  int // until it is done
		err    error
		want   error
		looked int
	}{
		"at once":                    {time.Second, 1, nil, nil, 1},
		"later":                      {time.Second, 4, nil, nil, 4},
		"at the very end":            {time.Second, 11, nil, nil, 11},
		"never":                      {time.Second, 100, nil, ErrLate, 11},
		"no time, and it is there":   {0, 1, nil, nil, 1},
		"no time, and it is not yet": {0, 2, nil, ErrLate, 1},
		"it fails":                   {time.Second, 3, broken, broken, 3},
	} {
		clk, looked := hurried{clock.NewFake(time.Unix(0, 0))}, 0
		err := Poll(t.Context(), clk, 100*time.Millisecond, c.within, func() (bool, error) {
			looked++
			if looked < c.looks {
				return false, nil
			}
			return c.err == nil, c.err
		})
		if !errors.Is(err, c.want) || c.want == nil && err != nil || looked != c.looked {
			t.Errorf("%s: %v after %d looks", name, err, looked)
		}
	}
}

func TestPollEndsWithItsContext(t *testing.T) {
	why := errors.New("the machine stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	looked := 0
	err := Poll(ctx, clock.NewFake(time.Unix(0, 0)), time.Second, time.Hour, func() (bool, error) {
		looked++
		cancel(why)
		return false, nil
	})
	if !errors.Is(err, why) || looked != 1 {
		t.Errorf("%v after %d looks", err, looked)
	}
}
