package agents

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/localapi"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/ownersocket"
	"interlock.sh/tray"
)

// door is an agent that a test plays.
type door struct {
	mu     sync.Mutex
	st     localapi.Status
	err    error
	older  bool
	asked  int
	calls  []string
	before func() // runs while a status is under way
}

func (d *door) Status(context.Context) (localapi.Status, error) {
	d.mu.Lock()
	st, err, before := d.st, d.err, d.before
	d.asked++
	d.mu.Unlock()
	if before != nil {
		before()
	}
	return st, err
}

func (d *door) wish(call string, change func(*localapi.Status)) (localapi.Status, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, call)
	if d.err != nil {
		return localapi.Status{}, d.err
	}
	change(&d.st)
	return d.st, nil
}

func (d *door) SetAvailability(_ context.Context, a schedule.Availability) (localapi.Status, error) {
	if d.older {
		return localapi.Status{}, fault.New(fault.NotFound, "the agent has no PUT /availability")
	}
	return d.wish("availability "+string(a.Mode), func(s *localapi.Status) { s.Wish.Availability = a; s.Hours.Mode = string(a.Mode) })
}

func (d *door) Pause(_ context.Context, x time.Duration) (localapi.Status, error) {
	until := time.Unix(0, 0).Add(x)
	return d.wish("pause "+x.String(), func(s *localapi.Status) { s.Wish.Hold = &schedule.Hold{Until: &until} })
}

func (d *door) SetOwner(_ context.Context, m fleet.Mode) (localapi.Status, error) {
	return d.wish("owner "+string(m), func(s *localapi.Status) { s.Owner, s.Wish.Hold = m, nil })
}

func (d *door) Logs(context.Context, string, int) (localapi.Logs, error) {
	return localapi.Logs{Lines: []string{"a line"}}, nil
}

func (d *door) called() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

// home is a home folder with enrollments, and the doors of their agents.
type home struct {
	t     *testing.T
	dir   enrollment.Home
	clock *clock.Fake
	mu    sync.Mutex
	doors map[string]*door
	w     *Watcher
}

func newHome(t *testing.T, groups ...string) *home {
	dir, err := os.MkdirTemp("", "ns") // not t.TempDir: a socket's path has 104 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	h := &home{t: t, dir: enrollment.Home(dir), clock: clock.NewFake(time.Unix(1e9, 0)), doors: map[string]*door{}}
	for _, g := range groups {
		h.enroll(g)
	}
	h.w = NewWith(h.dir, h.clock, func(_ enrollment.Enrollment, socket string) Door {
		h.mu.Lock()
		defer h.mu.Unlock()
		if d := h.doors[socket]; d != nil {
			return d
		}
		return &door{err: fault.Wrap(os.ErrNotExist, fault.Unavailable, "the agent does not run")}
	})
	return h
}

func (h *home) enroll(group string) *door {
	h.t.Helper()
	role := h.dir.Role(group, fleet.RoleClient)
	if err := os.MkdirAll(role, 0o700); err != nil {
		h.t.Fatal(err)
	}
	h.write(filepath.Join(role, "worker.env"), "INTERLOCK_MACHINE_CREDENTIAL=x\n")
	h.write(filepath.Join(role, "role.json"), `{"schema":1,"role":"client","runtime":"llama.cpp","machine":"m","name":"garage"}`)
	h.write(filepath.Join(h.dir.Group(group), "group.json"), fmt.Sprintf(`{"schema":1,"modelId":%q,"name":%q,"origin":"https://fleet.test"}`, group, strings.ToUpper(group)))
	d := &door{st: localapi.Status{
		Group: group, Words: "ready", Hours: fleet.Hours{Mode: "always", Open: true},
		Wish: localapi.Wish{Availability: schedule.Availability{Mode: schedule.Always, IdleMinutes: 7}},
	}}
	h.mu.Lock()
	h.doors[h.socket(group)] = d
	h.mu.Unlock()
	return d
}

func (h *home) write(path, text string) {
	h.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *home) socket(group string) string {
	s, err := h.dir.Socket(group, fleet.RoleClient)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

func (h *home) look() tray.Snapshot {
	h.w.look(h.t.Context())
	return h.w.Snapshot()
}

func key(group string) tray.Key { return tray.Key{Group: group, Role: fleet.RoleClient} }

func TestAgentsComeAndGo(t *testing.T) {
	h := newHome(t)
	if s := h.look(); !s.Loaded || len(s.Agents) != 0 || len(s.Broken) != 0 {
		t.Fatalf("no folder at all: %+v", s)
	}
	d := h.enroll("garage")
	s := h.look()
	if len(s.Agents) != 1 || s.Agents[0].Reach != tray.Answers || s.Agents[0].GroupName != "GARAGE" || s.Agents[0].Words() != "ready" {
		t.Fatalf("one came: %+v", s)
	}
	d.mu.Lock()
	d.err = fault.Wrap(os.ErrNotExist, fault.Unavailable, "the agent does not run")
	d.mu.Unlock()
	if a := h.look().Agents[0]; a.Reach != tray.Stopped || a.Status.Words != "" {
		t.Errorf("it stopped: %+v", a)
	}
	if err := os.RemoveAll(h.dir.Group("garage")); err != nil {
		t.Fatal(err)
	}
	if s := h.look(); len(s.Agents) != 0 || len(h.w.doors) != 0 {
		t.Errorf("it went: %+v, %d doors kept", s, len(h.w.doors))
	}
}

func TestWhatAnAgentDoesNotSayIsShownAsSuch(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		reach tray.Reach
		words string
	}{
		"nobody made a socket":      {fault.Wrap(os.ErrNotExist, fault.Unavailable, "x"), tray.Stopped, "the agent does not run"},
		"it takes too long":         {fmt.Errorf("ask the agent: %w", os.ErrDeadlineExceeded), tray.Silent, "the agent does not answer"},
		"its time is up":            {fmt.Errorf("ask the agent: %w", context.DeadlineExceeded), tray.Silent, "the agent does not answer"},
		"the socket is closed":      {fmt.Errorf("ask the agent: %w", os.ErrPermission), tray.Foreign, "the agent's socket is closed to this user"},
		"another user's socket":     {fault.Wrap(&ownersocket.RefusedError{Path: "/run/a", What: "belongs to another user (uid 7)"}, fault.ScopeDenied, "nothing is asked of what answers there"), tray.Foreign, "nothing is asked of what answers there"},
		"it answers nonsense":       {errors.New("read the agent's answer: invalid character"), tray.Silent, "read the agent's answer: invalid character"},
		"it refuses with a code":    {fault.New(fault.Internal, "no luck"), tray.Silent, "no luck"},
		"it ends while it is asked": {errors.New("ask the agent: EOF"), tray.Silent, "ask the agent: EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			h.enroll("garage").err = c.err
			a := h.look().Agents[0]
			if a.Reach != c.reach || a.Words() != c.words {
				t.Errorf("%s: %s", a.Reach, a.Words())
			}
			if err := h.w.Choose(t.Context(), key("garage"), schedule.Paused); !errors.Is(err, fault.Unavailable) {
				t.Errorf("a wish: %v", err)
			}
		})
	}
}

func TestASocketOfAnotherUserIsNotAsked(t *testing.T) {
	h := newHome(t)
	d := h.enroll("garage")
	if err := os.Chmod(filepath.Join(string(h.dir), "run"), 0o777); err != nil {
		t.Fatal(err)
	}
	a := h.look().Agents[0]
	if a.Reach != tray.Foreign || !strings.Contains(a.Words(), "/run is ") || d.asked != 0 {
		t.Errorf("a folder that others may write: %s %q, asked %d times", a.Reach, a.Words(), d.asked)
	}
}

func TestHalfDeletedGroupsAreNamed(t *testing.T) {
	for _, c := range []struct{ name, remove, write, want string }{
		{"the group's file is gone", "groups/garage/group.json", "", "/groups/garage/group.json is gone"},
		{"the role's file is gone", "groups/garage/roles/client/role.json", "", "/groups/garage/roles/client/role.json is gone"},
		{"the credential is gone", "groups/garage/roles/client/worker.env", "", "garage (client) is half deleted: worker.env is gone"},
		{"the group's file is cut", "", "groups/garage/group.json", "group.json is damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHome(t, "garage", "shed")
			if c.remove != "" {
				if err := os.Remove(filepath.Join(string(h.dir), c.remove)); err != nil {
					t.Fatal(err)
				}
			} else {
				h.write(filepath.Join(string(h.dir), c.write), `{"schema":1,"mod`)
			}
			s := h.look()
			if len(s.Agents) != 1 || s.Agents[0].Key != key("shed") {
				t.Errorf("the other is not shown: %+v", s.Agents)
			}
			if len(s.Broken) != 1 || !strings.Contains(s.Broken[0], c.want) {
				t.Errorf("said %q", s.Broken)
			}
		})
	}
	h := newHome(t)
	if err := os.MkdirAll(filepath.Join(string(h.dir), "groups", "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	if s := h.look(); len(s.Broken) != 0 {
		t.Errorf("an empty folder: %q", s.Broken)
	}
}

// Whatever is gone of its enrollment, an agent that runs can be paused.
func TestAnAgentOfAHalfDeletedGroupCanBePaused(t *testing.T) {
	for _, remove := range []string{"groups/garage/group.json", "groups/garage/roles/client/role.json", "groups/garage/roles/client/worker.env"} {
		t.Run(filepath.Base(remove), func(t *testing.T) {
			h := newHome(t)
			d := h.enroll("garage")
			l, err := net.Listen("unix", h.socket("garage")) // its door; the test's own is what answers
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close() //nolint:errcheck // the test is over
			if err := os.Remove(filepath.Join(string(h.dir), remove)); err != nil {
				t.Fatal(err)
			}
			s := h.look()
			if len(s.Agents) != 1 || s.Agents[0].Key != key("garage") || s.Agents[0].Reach != tray.Answers {
				t.Fatalf("shown: %+v", s.Agents)
			}
			if len(s.Broken) != 1 || !strings.Contains(s.Broken[0], filepath.Base(remove)+" is gone") {
				t.Errorf("said %q", s.Broken)
			}
			if err := h.w.PauseAll(t.Context(), time.Hour); err != nil {
				t.Error("pause all:", err)
			}
			if err := h.w.Choose(t.Context(), key("garage"), schedule.Paused); err != nil {
				t.Error("choose paused:", err)
			}
			if got := d.called(); !slices.Equal(got, []string{"pause 1h0m0s", "availability paused"}) {
				t.Errorf("asked %q", got)
			}
		})
	}
}

func TestChoicesKeepTheOtherLimits(t *testing.T) {
	h := newHome(t)
	d := h.enroll("garage")
	h.look()
	for _, m := range []schedule.Mode{schedule.Paused, schedule.Night, schedule.Always} {
		if err := h.w.Choose(t.Context(), key("garage"), m); err != nil {
			t.Fatal(err)
		}
		a := h.w.Snapshot().Agents[0]
		if a.Choice() != m || a.Status.Wish.IdleMinutes != 7 {
			t.Errorf("%s: %+v", m, a.Status.Wish)
		}
	}
	if err := h.w.Choose(t.Context(), key("garage"), schedule.Window); !errors.Is(err, fault.Invalid) {
		t.Errorf("hours that are none: %v", err)
	}
	if err := h.w.Choose(t.Context(), key("nowhere"), schedule.Always); !errors.Is(err, fault.NotFound) {
		t.Errorf("a group that went: %v", err)
	}
	want := []string{"availability paused", "availability night", "availability always"}
	if got := d.called(); !slices.Equal(got, want) {
		t.Errorf("asked %q", got)
	}
}

func TestPauseAllLeavesOutWhoWouldPauseForEver(t *testing.T) {
	h := newHome(t)
	newer, older := h.enroll("garage"), h.enroll("shed")
	older.older, older.st.Hours, older.st.Wish = true, fleet.Hours{}, localapi.Wish{}
	h.look()
	if err := h.w.PauseAll(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if got := newer.called(); !slices.Equal(got, []string{"pause 1h0m0s"}) || len(older.called()) != 0 {
		t.Errorf("newer %q, older %q", got, older.called())
	}
	if h.w.Snapshot().Agents[0].Held() == nil {
		t.Error("the pause is not shown")
	}
	if err := h.w.ResumeAll(t.Context()); err != nil || h.w.Snapshot().Agents[0].Held() != nil {
		t.Errorf("resume: %v", err)
	}
}

func TestResumeAllLeavesPausedRolesPaused(t *testing.T) {
	h := newHome(t)
	d := h.enroll("garage")
	d.st.Wish.Mode, d.st.Wish.Hold = schedule.Paused, &schedule.Hold{}
	h.look()
	if err := h.w.ResumeAll(t.Context()); err != nil || len(d.called()) != 0 {
		t.Errorf("asked %q, %v", d.called(), err)
	}
}

func TestAChoiceEndsAPauseForATime(t *testing.T) {
	h := newHome(t)
	d := h.enroll("garage")
	d.st.Wish.Hold = &schedule.Hold{}
	h.look()
	if err := h.w.Choose(t.Context(), key("garage"), schedule.Night); err != nil {
		t.Fatal(err)
	}
	if got := d.called(); !slices.Equal(got, []string{"availability night", "owner active"}) {
		t.Errorf("asked %q", got)
	}
}

func TestAnOlderAgentIsToldWhatItKnows(t *testing.T) {
	h := newHome(t)
	d := h.enroll("garage")
	d.older, d.st.Hours, d.st.Wish, d.st.Owner = true, fleet.Hours{}, localapi.Wish{}, fleet.Active
	h.look()
	if err := h.w.Choose(t.Context(), key("garage"), schedule.Paused); err != nil || h.w.Snapshot().Agents[0].Choice() != schedule.Paused {
		t.Errorf("paused: %v", err)
	}
	if err := h.w.Choose(t.Context(), key("garage"), schedule.Always); err != nil || h.w.Snapshot().Agents[0].Choice() != schedule.Always {
		t.Errorf("always: %v", err)
	}
	for name, err := range map[string]error{
		"night": h.w.Choose(t.Context(), key("garage"), schedule.Night),
		"hours": h.w.SetAvailability(t.Context(), key("garage"), schedule.Availability{Mode: schedule.Night}),
		"pause": h.w.PauseAll(t.Context(), time.Hour),
	} {
		if e := fault.Of(err); !errors.Is(err, fault.Invalid) || !strings.Contains(e.Hint, "update") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnAnswerFromBeforeAWishIsStale(t *testing.T) {
	h := newHome(t)
	d := h.enroll("garage")
	h.look()
	d.before = func() { // the status was read by the agent; then the owner clicks
		d.mu.Lock()
		d.before = nil
		d.mu.Unlock()
		if err := h.w.Choose(t.Context(), key("garage"), schedule.Paused); err != nil {
			t.Error(err)
		}
	}
	if a := h.look().Agents[0]; a.Choice() != schedule.Paused {
		t.Errorf("the older answer won: %s", a.Choice())
	}
}

func TestItLooksOftenOnlyWhileSomebodyLooks(t *testing.T) {
	h := newHome(t)
	d := h.enroll("garage")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.w.Run(ctx) }()
	asked := func() int { d.mu.Lock(); defer d.mu.Unlock(); return d.asked }
	h.clock.AwaitWaiters(1)
	h.clock.Advance(gently - time.Second)
	if n := asked(); n != 1 {
		t.Errorf("asked %d times in the first quarter of a minute", n)
	}
	h.clock.Advance(time.Second)
	h.clock.AwaitWaiters(1)
	h.w.Eager(3 * time.Second)
	h.clock.AwaitWaiters(2) // the timer of before, which nobody waits for, and the short one
	if n := asked(); n != 3 {
		t.Errorf("asked %d times, want at once when the menu opens", n)
	}
	h.clock.Advance(eagerly)
	h.clock.AwaitWaiters(2)
	h.clock.Advance(eagerly)
	h.clock.AwaitWaiters(2)
	if n := asked(); n != 5 {
		t.Errorf("asked %d times, want each %s while somebody looks", n, eagerly)
	}
	h.clock.Advance(eagerly)
	if n := asked(); n != 5 {
		t.Errorf("asked %d times after the menu was closed", n)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestLogs(t *testing.T) {
	h := newHome(t, "garage")
	h.look()
	if l, err := h.w.Logs(t.Context(), key("garage"), 5); err != nil || !slices.Equal(l, []string{"a line"}) {
		t.Errorf("%q, %v", l, err)
	}
	if _, err := h.w.Logs(t.Context(), key("nowhere"), 5); !errors.Is(err, fault.NotFound) {
		t.Error(err)
	}
}

func TestWhatAWishSetsOffIsFollowed(t *testing.T) {
	h := newHome(t, "garage")
	h.look()
	if got := h.w.pause(); got != gently {
		t.Errorf("nobody looks: each %s", got)
	}
	if err := h.w.Choose(t.Context(), key("garage"), schedule.Paused); err != nil {
		t.Fatal(err)
	}
	if got := h.w.pause(); got != eagerly {
		t.Errorf("after a wish: each %s", got)
	}
	h.clock.Advance(settling)
	if got := h.w.pause(); got != gently {
		t.Errorf("long after it: each %s", got)
	}
}
