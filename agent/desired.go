package agent

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"time"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/retry"
)

// pollEvery is how often the desired state is read when no hint came.
const pollEvery = time.Minute

// desiredLoop reads the desired state whenever a hint, a heartbeat or the time says so.
func (a *Agent) desiredLoop(ctx context.Context) error {
	back := retry.Backoff{Base: time.Second, Cap: pollEvery}
	for {
		d, err := a.control.DesiredState(ctx)
		wait := pollEvery
		switch {
		case err == nil:
			back.Reset()
			a.want(d)
		case ctx.Err() == nil:
			a.note(err)
			wait = back.Next(client.RetryAfter(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.refresh:
		case <-a.clock.After(wait):
		}
	}
}

func (a *Agent) want(d fleet.Desired) {
	a.mu.Lock()
	changed := !a.known || !reflect.DeepEqual(d, a.desired)
	a.desired, a.known = d, true
	a.mu.Unlock()
	if changed {
		a.log.Info("desired state", slog.Int64("version", d.Version), slog.String("mode", string(d.Mode)), slog.Int("deployments", len(d.Deployments)))
		a.poke()
	}
}

// note remembers why the control plane could not be asked; it is logged when it is another reason than
// before, not at every try. A revoked machine stops for good.
func (a *Agent) note(err error) {
	text := fault.Of(err).Error()
	a.mu.Lock()
	again := a.lastErr == text
	a.lastErr = text
	a.mu.Unlock()
	level := slog.LevelWarn
	if again {
		level = slog.LevelDebug
	}
	a.log.Log(context.Background(), level, "ask the control plane", slog.Any("cause", err))
	if errors.Is(err, fault.Revoked) {
		a.blame(func(t *trouble) { t.ended = revokedWords })
	}
}

// listenLoop holds the stream of hints open: low latency when it works, nothing lost when it does not.
// It serves the worker too, so that a machine has one such stream.
func (a *Agent) listenLoop(ctx context.Context) error {
	for ctx.Err() == nil {
		err := a.control.Follow(ctx, client.WorkerEventsPath, "", func(e client.Event) error {
			if e.Event == "desired" {
				signal(a.refresh)
			} else {
				signal(a.wake)
			}
			return nil
		})
		if ctx.Err() != nil {
			return nil
		}
		a.log.Debug("hint stream ended", slog.Any("cause", err))
		if retry.Sleep(ctx, a.clock, pollEvery) != nil {
			return nil
		}
	}
	return nil
}
