package updater

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/gofrs/flock"

	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/fleet/build"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/diskspace"
)

// The usual times of an update. Each can be set by Options.
const (
	DefaultDeadline   = 5 * time.Minute  // for a restarted service to be well
	DefaultSteady     = 30 * time.Second // that it must stay well
	DefaultPatience   = 15 * time.Minute // that one pass waits for a busy machine
	DefaultBusyLimit  = 6 * time.Hour    // after which a busy machine is updated all the same
	DefaultUrgent     = 30 * time.Minute // the same for a security release
	DefaultMinEvery   = 5 * time.Minute  // between two looks at the mirrors by the timer
	DefaultOpenLimit  = 24 * time.Hour   // for a verdict that waits for the control plane to be reached
	DefaultReachGrace = time.Minute      // for a heartbeat, once the control plane is reached again
	DefaultLookEvery  = 2 * time.Second  // between two looks at the services
	restartAtOnce     = time.Minute      // for a service to make way when a bad version is reverted
	drainShare        = 6                // the last sixth of the limit is for the drain
	askWithin         = time.Minute      // for one question to a service
	tryWithin         = 30 * time.Second // for a new program to say its version
	proveWithin       = 2 * time.Minute  // for a new program to look for updates
	startWithin       = 6 * time.Minute  // for a service that is being started to be up: service managers wait up to 5 min between two tries
	lockPoll          = 50 * time.Millisecond
	maxQuarantineText = 300
)

// Options say which folder is kept up to date, from where, and how.
type Options struct {
	App      string // folder
	Origins  []Origin
	Unread   error    // why Origins may lack some; nil when all are known
	Services Services // nil when nothing runs out of the folder
	Machine  string   // id that the canary's lot is drawn by
	Program  string   // "" is build.Interlock
	Root     []byte   // root of trust that is built in; see BuiltIn
	Clock    clock.Clock
	Logger   *slog.Logger
	OS, Arch string // "" is this machine's

	// Bundle is an app outside of the folder that is kept at its own newest version; nil is none.
	Bundle *Bundle
	// Try starts a new program once, before it takes over; nil does not. An error that speaks against the program
	// itself keeps it out, see faulty; with another one it is tried again by the next pass.
	Try func(ctx context.Context, program string) error
	// Rate is the owner's limit of downloads now, which may change while one goes on; nil has none. What is
	// brought in by hand does not heed it.
	Rate func() (bytesPerSecond int64, limited bool)
	// VersionOf asks a program beside for its version, when no release has its bytes; "" when it cannot be
	// told. nil asks none.
	VersionOf func(ctx context.Context, program string) string
	// Prove has a new program run SelfTest for this folder, before its own runs the updater; nil takes it for
	// proven. An error leaves the updater's work to the version that did it so far.
	Prove func(ctx context.Context, program string) error
	// Progress is told each new report; nil is told nothing.
	Progress func(fleet.UpdateReport)
	// FreeDisk is how many bytes a folder's disk has left; nil asks the system.
	FreeDisk func(dir string) (int64, error)

	Deadline, Steady, Patience, BusyLimit, Urgent, MinEvery, OpenLimit, ReachGrace, LookEvery time.Duration // 0 is the default
}

// Updater keeps one app folder. Its methods may be called from several processes: one works, the others
// are refused.
type Updater struct {
	Options
	folder   folder
	clock    clock.Clock
	log      *slog.Logger
	patience patience
	// reached is told each durable step, so that a test can end the process there.
	reached func(step string)
	// steady is the time between two readings of the clock that goes on while the machine is awake.
	steady func(from, to time.Time) time.Duration
}

// New checks the options and makes an updater. It touches nothing.
func New(o Options) (*Updater, error) {
	if o.App == "" {
		return nil, fault.New(fault.Invalid, "no app folder was named")
	}
	u := &Updater{Options: o, folder: folder(o.App), clock: o.Clock, log: o.Logger, patience: usualPatience, reached: func(string) {}, steady: func(from, to time.Time) time.Duration { return to.Sub(from) }}
	if u.clock == nil {
		u.clock = clock.System
	}
	if u.log == nil {
		u.log = slog.New(slog.DiscardHandler)
	}
	if u.Services == nil {
		u.Services = noServices{}
	}
	if u.Program == "" {
		u.Program = build.Interlock
	}
	if u.OS == "" {
		u.OS = runtime.GOOS
	}
	if u.Arch == "" {
		u.Arch = runtime.GOARCH
	}
	for _, d := range []struct {
		at    *time.Duration
		usual time.Duration
	}{
		{&u.Deadline, DefaultDeadline},
		{&u.Steady, DefaultSteady},
		{&u.Patience, DefaultPatience},
		{&u.BusyLimit, DefaultBusyLimit},
		{&u.Urgent, DefaultUrgent},
		{&u.MinEvery, DefaultMinEvery},
		{&u.OpenLimit, DefaultOpenLimit},
		{&u.ReachGrace, DefaultReachGrace},
		{&u.LookEvery, DefaultLookEvery},
	} {
		if *d.at == 0 {
			*d.at = d.usual
		}
	}
	return u, nil
}

func (u *Updater) freeDisk(dir string) (int64, error) {
	if u.FreeDisk != nil {
		return u.FreeDisk(dir)
	}
	return diskspace.Free(dir)
}

// News is how an app folder stands.
type News struct {
	Report      fleet.UpdateReport `json:"report"`
	Current     string             `json:"current"`
	Previous    string             `json:"previous,omitempty"`
	Channel     string             `json:"channel,omitempty"`
	Newest      string             `json:"newest,omitempty"` // that is for this machine
	Quarantined map[string]string  `json:"quarantined,omitempty"`
	Mirrors     []MirrorNews       `json:"mirrors"`
	Reached     *time.Time         `json:"reached,omitempty"` // newest look that found a valid set
}

func (u *Updater) news(st *state) News {
	n := News{
		Current: u.folder.target(linkCurrent), Previous: u.folder.target(linkPrevious), Channel: st.Channel,
		Quarantined: st.Quarantined, Mirrors: st.Mirrors,
	}
	if r := LastReport(string(u.folder)); r != nil {
		n.Report = *r
	}
	if n.Mirrors == nil {
		n.Mirrors = []MirrorNews{}
	}
	if !st.Reached.IsZero() {
		n.Reached = &st.Reached
	}
	return n
}

// Last is how the folder stood after the newest pass. It asks nobody and waits for no lock.
func (u *Updater) Last() (News, error) {
	st, err := u.folder.peek()
	if err != nil {
		return News{}, err
	}
	return u.news(&st), nil
}

// locked runs fn as the only updater of the folder, with the folder mended and the state read.
func (u *Updater) locked(ctx context.Context, fn func(st *state) error) (News, error) {
	if _, err := os.Stat(string(u.folder)); errors.Is(err, fs.ErrNotExist) {
		return News{}, fault.New(fault.NotFound, "%s is not there: nothing is installed", u.folder).WithHint("paste an install line first")
	}
	unlock, err := u.lock(fmt.Sprintf("another update of %s is under way", u.folder), "wait for it; `interlock agent update` says how far it is")
	if err != nil {
		return News{}, err
	}
	defer unlock()
	st, note, err := u.folder.load()
	if err != nil {
		return News{}, err
	}
	if note != "" {
		u.log.WarnContext(ctx, "the state is mended", "what", note)
		if err := u.recall(ctx, &st); err != nil {
			return News{}, err
		}
	}
	notes, err := u.folder.mend(u.Program, &st)
	if err != nil {
		return News{}, err
	}
	for _, n := range notes {
		u.log.WarnContext(ctx, "the folder is mended", "what", n)
	}
	err = fn(&st)
	return u.news(&st), err
}

// lock makes this the only updater of the trust folder.
func (u *Updater) lock(taken, hint string) (unlock func(), err error) {
	if err := os.MkdirAll(u.folder.trust(), 0o700); err != nil {
		return nil, fmt.Errorf("make the trust folder: %w", err)
	}
	lock := flock.New(filepath.Join(u.folder.trust(), "lock"))
	switch ok, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("lock the trust folder: %w", err)
	case !ok:
		return nil, fault.New(fault.Conflict, "%s", taken).WithHint("%s", hint)
	}
	return func() { _ = lock.Unlock() }, nil // closing the file releases it as well
}

// recall rebuilds from the links what a damaged state knew: an updater link that lags behind current is an
// open verdict. Which services were up is not known any more, so those are judged that are up now or are
// being started.
func (u *Updater) recall(ctx context.Context, st *state) error {
	now, was := u.folder.target(linkCurrent), u.folder.target(linkUpdater)
	if now == was || !u.folder.complete(now, u.Program, nil, false) || !u.folder.complete(was, u.Program, nil, false) {
		return nil
	}
	subjects, err := u.started(ctx, nil)
	if err != nil {
		return err
	}
	at := u.clock.Now()
	st.Pending = &pending{Version: now, From: was, Step: stepSwapping, Since: at, Swapped: at, Subjects: subjects}
	return u.folder.save(st)
}

// say writes a report. One that says the same again keeps its time, except that nothing is newer, or that
// nothing is offered: that is as fresh as the newest look.
func (u *Updater) say(state, version, why string) error {
	old := LastReport(string(u.folder))
	same := old != nil && old.State == state && old.Version == version && old.Why == why
	if same && state != Current && state != Unoffered {
		return nil
	}
	r := fleet.UpdateReport{State: state, Version: version, Why: why, At: u.clock.Now().UTC()}
	if err := u.folder.report(r); err != nil {
		return err
	}
	if u.Progress != nil && !same {
		u.Progress(r)
	}
	return nil
}
