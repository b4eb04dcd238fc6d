package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"interlock.sh/agent/supervise"
	"interlock.sh/fault"
	"interlock.sh/fleet"
)

const (
	replaceWithin  = 6 * time.Hour    // for the work in hand when the program is to be replaced, unless it is asked for less
	handBackWithin = 30 * time.Second // for the answers to what is handed back then
	lockFile       = "lock"           // of the role, in a hand-over
	cannotGoOn     = "could not go on as the new program"
)

// replacement is how far the agent is on its way to another image of its program. Agent.mu guards it.
type replacement struct {
	by      time.Time // when the work in hand is handed back; zero when nothing is to be replaced
	program string
	failed  string // why the last try came to nothing
}

// handOverNote is what one image of the agent tells the next. An image of another version reads it, too:
// fields are only ever added.
type handOverNote struct {
	Version string        `json:"version"` // of who wrote it
	At      time.Time     `json:"at"`      // when it stopped working
	Desired fleet.Desired `json:"desired"`
	Known   bool          `json:"known"`
}

// Restart makes the agent go on as the program that is current: it claims nothing more, finishes the work
// in hand, for at most so long (6 h when within is 0), and replaces itself in the same process. Model
// servers stay loaded. It returns once that has begun. A second call can only shorten the time.
func (a *Agent) Restart(within time.Duration) error {
	if within < 0 || within > replaceWithin {
		return fault.New(fault.Invalid, "within is %v; it goes from 0 to %v", within, replaceWithin).WithField("within")
	}
	if within == 0 {
		within = replaceWithin
	}
	if err := a.mayStart(); err != nil {
		return err
	}
	program, err := a.nextProgram()
	if err != nil {
		return err
	}
	by := a.clock.Now().Add(within)
	a.mu.Lock()
	if a.going.by.IsZero() || by.Before(a.going.by) {
		a.going.by = by
	}
	a.going.program, a.going.failed = program, "" // why an earlier try failed says nothing of this one
	signal(a.replace)
	a.mu.Unlock()
	a.poke()
	return nil
}

// mayStart refuses where another image would find no enrollment to run: the one that does goes on.
func (a *Agent) mayStart() error {
	e := a.Enrollment
	if _, err := e.Home.Load(e.Group, e.Role); err != nil {
		return fault.Wrap(err, fault.Conflict, "an agent that starts now could not run: %s; this one goes on as version %s", said(err), a.Version).
			WithHint("restore the file, or enroll again with a fresh key")
	}
	return nil
}

// nextProgram is what Restart runs: the program behind the link of the app folder that ours stands in, else
// ours.
func (a *Agent) nextProgram() (string, error) {
	program := CurrentProgram(a.Program)
	if program == "" {
		return "", fault.New(fault.Conflict, "this agent does not know its own program, so it cannot start it anew").
			WithHint("interlock agent stop, then interlock agent start")
	}
	st, err := os.Stat(program)
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("it is no file")
	}
	if err == nil {
		err = unix.Access(program, unix.X_OK)
	}
	if err != nil {
		return "", fault.Wrap(err, fault.Conflict, "%s cannot be run: %v; the agent goes on as version %s", program, errors.Unwrap(err), a.Version).
			WithHint("install it again: interlock agent update --now, or the install line")
	}
	return program, nil
}

// CurrentProgram is the program that takes the place of the one at path: <app>/current/<name> for
// <app>/<version>/<name>, where there is such a link, else itself.
func CurrentProgram(path string) string {
	if path == "" {
		return ""
	}
	link := filepath.Join(filepath.Dir(filepath.Dir(path)), "current")
	if st, err := os.Lstat(link); err != nil || st.Mode()&fs.ModeSymlink == 0 {
		return path
	}
	return filepath.Join(link, filepath.Base(path))
}

// replaceLoop replaces the program whenever that was asked for, until ctx ends.
func (a *Agent) replaceLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.Hangup:
			if err := a.Restart(0); err != nil {
				a.log.Error("replace the program", slog.Any("cause", err))
			}
			continue
		case <-a.replace:
		}
		err := a.becomeNext(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			a.goOn(err)
		}
	}
}

// goOn notes that the program could not be replaced. What was asked for meanwhile was the same, and is over, too.
func (a *Agent) goOn(err error) {
	a.mu.Lock()
	a.ceiling.tell = true // the worker was drained behind reconcile's back
	a.going = replacement{failed: fmt.Sprintf("%s, and goes on as version %s: %v", cannotGoOn, a.Version, err)}
	select {
	case <-a.replace:
	default:
	}
	a.mu.Unlock()
	a.log.Error("replace the program", slog.Any("cause", err))
	a.poke()
}

// becomeNext returns only when the program could not be replaced, none is to be (nil), or ctx ended.
func (a *Agent) becomeNext(ctx context.Context) error {
	a.mu.Lock()
	program, wanted := a.going.program, !a.going.by.IsZero()
	a.mu.Unlock()
	if !wanted {
		return nil
	}
	a.log.Info("the program is to be replaced; work in hand is finished first", slog.String("program", program))
	a.offering.Lock() // an offer that was decided before we were asked is made by now
	a.worker.DrainToReturn()
	a.offering.Unlock()
	if err := a.finishWork(ctx); err != nil {
		return err
	}
	at := time.Now()
	reopen := a.closeDoor(ctx) // whoever asked there has the answer
	defer reopen()
	a.mu.Lock()
	program = a.going.program
	note := handOverNote{Version: a.Version, At: at, Desired: a.desired, Known: a.known}
	a.mu.Unlock()
	return a.host.sup.HandOver(supervise.HandOver{
		Program: program, Args: append([]string{program}, a.Args...), Env: withoutKey(os.Environ()),
		Files: map[string]*os.File{lockFile: a.lock.file}, Note: note,
	})
}

// finishWork waits for the work in hand, as long as there is time, and then hands back what is left of it.
func (a *Agent) finishWork(ctx context.Context) error {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	settled := make(chan error, 1)
	go func() { settled <- a.worker.Settle(waiting) }()
	for {
		a.mu.Lock()
		left := a.going.by.Sub(a.clock.Now())
		a.mu.Unlock()
		select {
		case err := <-settled:
			return err
		case <-a.replace: // somebody has less patience
			continue
		case <-a.clock.After(left):
		}
		bound, cancel := context.WithTimeout(ctx, handBackWithin)
		defer cancel()
		// What is not answered by then stands in the spool, from which the next image reports it.
		if err := a.worker.HandBack(bound, "the agent is replaced by another version"); err != nil {
			a.log.Warn("replace the program", slog.Any("cause", err))
		}
		return context.Cause(ctx)
	}
}

// inherit takes over what the former image of this process told.
func (a *Agent) inherit(in *supervise.Inheritance) {
	if in == nil {
		return
	}
	var note handOverNote
	if err := json.Unmarshal(in.Note, &note); err != nil {
		a.log.Warn("read what the former program left", slog.Any("cause", err))
		return
	}
	if note.Known {
		a.desired, a.known = note.Desired, true
	}
	a.since = note
}

// welcome says once how long the machine took no work while the program was replaced.
func (a *Agent) welcome() {
	if a.since.At.IsZero() {
		return
	}
	a.log.Info("re-executed in place", slog.Duration("took", time.Since(a.since.At).Round(time.Millisecond)),
		slog.String("from", a.since.Version), slog.String("to", a.Version))
	a.since = handOverNote{}
}

// dropUnwanted ends what the former image served and nobody wants any more.
func (a *Agent) dropUnwanted(ctx context.Context) {
	a.mu.Lock()
	wanted := a.wanted()
	a.mu.Unlock()
	for _, name := range a.host.sup.Inherited() {
		if _, ok := wanted[name]; ok {
			continue
		}
		if err := a.host.sup.Drop(ctx, name); err != nil {
			a.log.Error("stop a model server that was left", slog.Any("cause", err))
		}
	}
}
