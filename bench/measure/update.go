package measure

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"interlock.sh/ai"
	"interlock.sh/bench/report"
	"interlock.sh/bench/rig"
	"interlock.sh/client"
	"interlock.sh/tasks"
)

// maxDowntime is how long an update may keep a machine from taking work.
const maxDowntime = 5 * time.Second

// applications is how many ask for short answers all the time, each for the next when it has one. They
// leave slots free, so that the machine always has a claim open.
const applications = 2

// Update replaces the program of a machine that works, and reads in the journal of the control plane how
// long no work was claimed. The model server must be the same process after it.
func Update(ctx context.Context, p *rig.Plane, m *rig.Machine, updates int) ([]report.Row, error) {
	before, err := m.Local.Status(ctx)
	if err != nil {
		return nil, err
	}
	if len(before.Report.Deployments) != 1 {
		return nil, fmt.Errorf("the machine serves %d models, not one", len(before.Report.Deployments))
	}
	load := newLoad(p.Owner)
	asking, done := context.WithCancel(ctx)
	group, gctx := errgroup.WithContext(asking)
	for range applications {
		group.Go(func() error { return load.ask(gctx) })
	}
	var windows []window
	err = func() error {
		defer done()
		for n := range updates {
			if err := load.some(gctx, 5*applications); err != nil { // it works before and after each
				return err
			}
			w, err := replace(gctx, m, fmt.Sprintf("1.1.%d", n))
			if err != nil {
				return err
			}
			windows = append(windows, w)
		}
		return load.some(gctx, 5*applications)
	}()
	if ended := group.Wait(); ended != nil && ctx.Err() == nil {
		return nil, ended
	}
	if err != nil {
		return nil, err
	}
	after, err := m.Local.Status(ctx)
	if err != nil {
		return nil, err
	}
	was, is := before.Report.Deployments[0], after.Report.Deployments[0]
	if is.Pid != was.Pid || is.Restarts != was.Restarts || after.Pid != before.Pid {
		return nil, fmt.Errorf("the model was loaded again: process %d, now %d with %d restarts; the agent was %d and is %d", was.Pid, is.Pid, is.Restarts, before.Pid, after.Pid)
	}
	claims, err := load.claims(ctx)
	if err != nil {
		return nil, err
	}
	var down []time.Duration
	for _, w := range windows {
		down = append(down, w.longest(claims))
	}
	worst := slices.Max(down)
	return []report.Row{{
		What:     fmt.Sprintf("update: last claim before → first claim after, longest of %d, the model stays loaded", updates),
		Measured: fmt.Sprintf("%.2f s (p50 %.2f s)", worst.Seconds(), median(down).Seconds()),
		Bound:    fmt.Sprintf("≤ %.0f s", maxDowntime.Seconds()), OK: worst <= maxDowntime,
	}}, nil
}

// window is the time of one update.
type window struct{ begin, end time.Time }

// replace makes the agent go on as the program of another version.
func replace(ctx context.Context, m *rig.Machine, version string) (window, error) {
	if err := m.Install(version); err != nil {
		return window{}, err
	}
	w := window{begin: time.Now()}
	if err := m.Local.Restart(ctx, 0); err != nil {
		return w, fmt.Errorf("restart the agent: %w", err)
	}
	for {
		runs, err := m.Version()
		if err != nil {
			return w, err
		}
		if runs == version {
			if st, err := m.Local.Status(ctx); err == nil && st.State.Serving() {
				w.end = time.Now()
				return w, nil
			}
		}
		if time.Since(w.begin) > upWithin {
			return w, fmt.Errorf("%v after its restart the agent is version %s", upWithin, runs)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return w, context.Cause(ctx)
		}
	}
}

// longest is the longest time between two claims that touches the window.
func (w window) longest(claims []time.Time) (longest time.Duration) {
	for i, at := range claims[1:] {
		if before := claims[i]; at.After(w.begin) && before.Before(w.end) {
			longest = max(longest, at.Sub(before))
		}
	}
	return longest
}

// load asks the machine for short answers.
type load struct {
	owner *client.Client
	ended chan ai.Run
	runs  []ai.Run
}

func newLoad(owner *client.Client) *load { return &load{owner: owner, ended: make(chan ai.Run, 1<<16)} }

// ask submits a run when the one before has ended, until ctx ends.
func (l *load) ask(ctx context.Context) error {
	for {
		run, err := l.owner.SubmitRun(ctx, ai.RunRequest{Model: rig.Alias, Prompt: "Say yes.", MaxTokens: 1, WaitForMs: upWithin.Milliseconds()})
		if err == nil {
			run, err = l.owner.FollowRun(ctx, run.ID, func(string, ai.StreamEvent) error { return nil })
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("ask for an answer: %w", err)
		}
		if run.State != tasks.Succeeded {
			return fmt.Errorf("a run during an update is %s: %+v", run.State, run.Error)
		}
		l.ended <- run
	}
}

// some waits until so many runs more have ended.
func (l *load) some(ctx context.Context, n int) error {
	for range n {
		select {
		case run := <-l.ended:
			l.runs = append(l.runs, run)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// claims are the times at which the runs were claimed, in order, by the clock of this machine.
func (l *load) claims(ctx context.Context) (at []time.Time, _ error) {
	for len(l.ended) > 0 {
		l.runs = append(l.runs, <-l.ended)
	}
	for _, run := range l.runs {
		journal, err := l.owner.TaskJournal(ctx, run.TaskID, 0, 0)
		if err != nil {
			return nil, fmt.Errorf("read when a run was claimed: %w", err)
		}
		for _, e := range journal.Entries {
			if e.Kind == tasks.EntryLeased {
				at = append(at, e.At)
			}
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	return at, nil
}
