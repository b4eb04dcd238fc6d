package cli

import (
	"context"
	"errors"
	"testing"
	"time"

	"interlock.sh/cli/profile"
	"interlock.sh/installer/service"
	"interlock.sh/internal/clock"
)

// recorded is a clock that says how long somebody would have waited, and never lets them.
type recorded struct {
	*clock.Fake
	waits []time.Duration
}

func (c *recorded) After(d time.Duration) <-chan time.Time {
	c.waits = append(c.waits, d)
	now := make(chan time.Time, 1)
	now <- c.Now()
	return now
}

// Machines that start at the same moment ask at different ones, within what their service says; whoever is
// started by hand, or by a definition that says nonsense, does not wait.
func TestUpdatersDoNotAskAllAtOnce(t *testing.T) {
	for text, most := range map[string]time.Duration{"": 0, "0s": 0, "-4m": 0, "soon": 0, "4m0s": 4 * time.Minute, "24h": maxSpread} {
		c := &recorded{Fake: clock.NewFake(time.Now())}
		env := map[string]string{service.SpreadVariable: text}
		a := &app{clock: c, env: Env{Env: profile.Env{Getenv: func(name string) string { return env[name] }}}}
		different := map[time.Duration]bool{}
		for range 20 {
			if err := a.spread(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, d := range c.waits {
			if d >= most {
				t.Errorf("%q: it waits %v", text, d)
			}
			different[d] = true
		}
		if most > 0 && len(different) < 15 || most == 0 && len(c.waits) > 0 {
			t.Errorf("%q: it waits %v", text, c.waits)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := &app{clock: clock.NewFake(time.Now()), env: Env{Env: profile.Env{Getenv: func(string) string { return "4m" }}}}
	if err := a.spread(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("at the end of the machine: %v", err)
	}
}
