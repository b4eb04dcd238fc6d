package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/atomicfile"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/retry"
)

// Apply does what a request asks for, as root. caller is the user that asked, as sudo and pkexec tell;
// nil when root itself or the system's own prompt started this. A change that fails half-way is undone:
// afterwards the machine is as it was or as asked.
func (h *Host) Apply(ctx context.Context, q Request, caller *int) (Plan, error) {
	if err := q.check(); err != nil {
		return Plan{}, err
	}
	// Looked at once: what was checked is what is planned, whatever happens to the path meanwhile.
	real, uid, err := h.folder(q.Home)
	if err != nil {
		return Plan{}, err
	}
	if caller != nil && uid != *caller {
		return Plan{}, fault.New(fault.ScopeDenied, "%s belongs to user %d, and user %d asked", q.Home, uid, *caller).
			WithHint("do this as the owner of that folder")
	}
	p, err := h.plan(ctx, q, real, uid)
	if err != nil {
		return p, err
	}
	return p, h.Do(ctx, p)
}

// Do makes the machine what a plan says, as root.
func (h *Host) Do(ctx context.Context, p Plan) error {
	switch {
	case !p.NeedsRoot():
		return nil
	case p.ends:
		return h.takeAway(ctx, p)
	}
	return h.install(ctx, p)
}

// Start starts an installed service, as root.
func (h *Host) Start(ctx context.Context, name string) error { return h.do(ctx, h.manager.start(name)) }

// Stop stops a service until it is started, as root; it returns when the service has ended.
func (h *Host) Stop(ctx context.Context, name string) error { return h.do(ctx, h.manager.stop(name)) }

// install writes the files and starts the services.
func (h *Host) install(ctx context.Context, p Plan) error {
	before := map[string][]byte{} // texts of files that were there
	for path := range p.write {
		old, err := os.ReadFile(h.at(path))
		if err == nil {
			before[path] = old
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	err := h.writeAll(p.write)
	if err == nil {
		err = h.do(ctx, p.after)
	}
	if err == nil {
		return nil
	}
	if back := h.putBack(context.WithoutCancel(ctx), p, before); back != nil {
		return errors.Join(fmt.Errorf("install services: %w", err), fmt.Errorf("undo: %w", back))
	}
	return fmt.Errorf("install services: %w; everything is as it was", err)
}

func (h *Host) writeAll(files map[string]string) error {
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if err := os.MkdirAll(filepath.Dir(h.at(path)), 0o755); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		if err := atomicfile.Write(h.at(path), []byte(files[path]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// putBack ends the services that were new and restores the texts of the others.
func (h *Host) putBack(ctx context.Context, p Plan, before map[string][]byte) error {
	var problems []error
	if len(p.fresh) > 0 {
		problems = append(problems, h.do(ctx, lenient(h.manager.stopAll(p.fresh))))
	}
	for path := range p.write {
		var err error
		if old, was := before[path]; was {
			err = atomicfile.Write(h.at(path), old, 0o644)
		} else if err = os.Remove(h.at(path)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		problems = append(problems, err)
	}
	var replaced []Unit
	for _, u := range p.changed {
		if !slices.ContainsFunc(p.fresh, func(f Unit) bool { return f.Name == u.Name }) {
			replaced = append(replaced, u)
		}
	}
	if len(replaced) > 0 {
		problems = append(problems, h.do(ctx, lenient(h.manager.startAll(replaced, nil))))
	}
	return errors.Join(append(problems, h.do(ctx, lenient(h.manager.forget(p.fresh))))...)
}

// lenient are commands that undo what may not have been done.
func lenient(all []command) []command {
	out := slices.Clone(all)
	for i := range out {
		out[i].mayFail = true
	}
	return out
}

// takeAway stops the services and then removes their files. One that does not stop keeps all files.
func (h *Host) takeAway(ctx context.Context, p Plan) error {
	if err := h.do(ctx, p.before); err != nil {
		return fmt.Errorf("stop services: %w; nothing was removed", err)
	}
	var problems []error
	for _, path := range p.remove {
		if err := os.Remove(h.at(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, fmt.Errorf("remove service: %w", err))
		}
	}
	return errors.Join(append(problems, h.do(ctx, p.after))...)
}

// do runs commands of the service manager in order and stops at the first that fails.
func (h *Host) do(ctx context.Context, all []command) error {
	for _, c := range all {
		_, err := h.run(ctx, c.argv...)
		for tries := 0; err != nil && c.again && tries < patience; tries++ {
			if stopped := retry.Sleep(ctx, clock.System, h.pause); stopped != nil {
				return errors.Join(err, stopped)
			}
			_, err = h.run(ctx, c.argv...)
		}
		if c.gone != nil {
			err = h.awaitGone(ctx, c, err)
		}
		if err != nil && !c.mayFail {
			return err
		}
	}
	return nil
}

// awaitGone waits until a service that was told to end is not known any more. said is what the manager answered
// to that: while the service is still there it is an error, unless it only says that the end takes its time.
func (h *Host) awaitGone(ctx context.Context, c command, said error) error {
	for range patience {
		_, err := h.run(ctx, c.gone...)
		if err != nil {
			if notThere(err) {
				return nil
			}
			return errors.Join(said, err)
		}
		if said != nil && !strings.Contains(strings.ToLower(said.Error()), "in progress") {
			return said
		}
		if stopped := retry.Sleep(ctx, clock.System, h.pause); stopped != nil {
			return errors.Join(said, stopped)
		}
	}
	return errors.Join(said, fault.New(fault.Unavailable, "%s has not ended within %v", strings.Join(c.argv, " "), stopAgent))
}

// notThere is launchctl's answer to a question for a service that it does not know.
func notThere(err error) bool {
	return strings.Contains(strings.ToLower(err.Error()), "could not find")
}

// patience is how often a command is tried again: a service that ends may take as long as its work in hand.
const patience = int(stopAgent / time.Second)
