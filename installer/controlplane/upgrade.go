package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/retry"
)

// Upgrade is how a control plane is given another program.
type Upgrade struct {
	Programs Programs
	Stop     func(ctx context.Context) error // drains and ends the service
	Start    func(ctx context.Context) error
	Copy     func(ctx context.Context) (copied string, err error) // of the database, while nothing runs
	Restore  func(ctx context.Context, copied string) error
	Running  func(ctx context.Context) (version string, err error) // of the server, once it is ready
	Restarts func(ctx context.Context) (int, error)                // how often the service ended by itself since Start
	Within   time.Duration                                         // for a version to serve, its migrations included
	Clock    clock.Clock
	Say      func(format string, args ...any)
}

const (
	askEvery = 250 * time.Millisecond
	hopeless = 2 // ends by itself, after which a program is given up
)

// Run makes a program that was put the current one, and goes back to the one before when it does not serve
// as the wanted version. The error of an upgrade that went back says so, and is fault.Conflict.
func (u Upgrade) Run(ctx context.Context, name, version string) error {
	before := u.Programs.Current()
	if before == "" {
		return fault.New(fault.NotFound, "no control plane is installed in %s", u.Programs).WithHint("sudo interlock serve install")
	}
	back := context.WithoutCancel(ctx) // an interrupt goes back, too
	u.Say("draining the control plane")
	if err := u.Stop(ctx); err != nil {
		return errors.Join(fmt.Errorf("stop the control plane: %w", err), u.Start(back))
	}
	copied, err := u.Copy(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("copy the database: %w; nothing was changed", err), u.Start(back))
	}
	u.Say("the database as it was is in %s", copied)
	if err := u.Programs.Point(name); err != nil {
		return errors.Join(err, u.Start(back))
	}
	err = u.start(ctx, version)
	if err == nil {
		u.Say("version %s serves", version)
		return u.Programs.Prune(name, before)
	}
	u.Say("version %s does not serve: %v", version, err)
	if undone := u.goBack(back, before, copied); undone != nil {
		return errors.Join(err, undone)
	}
	return fault.Wrap(err, fault.Conflict, "version %s did not serve within %v (%v); the version before serves again", version, u.Within, err).
		WithHint("look at the log of the service, e.g.: journalctl -u sh.interlock.serve")
}

// start starts the service and waits until it serves as version; "" for whichever.
func (u Upgrade) start(ctx context.Context, version string) error {
	if err := u.Start(ctx); err != nil {
		return fmt.Errorf("start the control plane: %w", err)
	}
	return u.Await(ctx, version)
}

// Await returns when the service that was started serves as version; "" for whichever.
func (u Upgrade) Await(ctx context.Context, version string) error {
	var last error
	err := retry.Poll(ctx, u.Clock, askEvery, u.Within, func() (bool, error) {
		var now string
		if now, last = u.Running(ctx); last == nil && (version == "" || now == version) {
			return true, nil
		}
		if last == nil {
			last = fmt.Errorf("it is version %s that serves", now)
		}
		if n, asked := u.Restarts(ctx); asked == nil && n >= hopeless {
			return false, fmt.Errorf("it ended %d times: %w", n, last)
		}
		return false, nil
	})
	if errors.Is(err, retry.ErrLate) {
		return last
	}
	return err
}

// goBack has the program of before serve again. Work that the new one had taken is kept where the old one
// can read it; a database that was migrated beyond it is replaced by the copy.
func (u Upgrade) goBack(ctx context.Context, before, copied string) error {
	if err := u.Stop(ctx); err != nil {
		return fmt.Errorf("stop the control plane: %w", err)
	}
	if err := u.Programs.Point(before); err != nil {
		return err
	}
	first := u.start(ctx, "")
	if first == nil {
		return nil
	}
	u.Say("the version before does not serve on the database of now (%v): it gets its own back", first)
	err := u.Stop(ctx)
	if err == nil {
		err = u.Restore(ctx, copied)
	}
	if err == nil {
		err = u.start(ctx, "")
	}
	if err != nil {
		return fault.Wrap(err, fault.Unavailable, "the control plane does not serve: %v", err).
			WithHint("program %s, database %s: sudo systemctl status sh.interlock.serve", u.Programs.Path(before), copied)
	}
	return nil
}
