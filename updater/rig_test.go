package updater

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"interlock.sh/client"
	"interlock.sh/fleet"
	"interlock.sh/fleet/build"
	"interlock.sh/internal/testkit/tufrepo"
)

// leap is a clock on which nobody waits: a timer moves it.
type leap struct {
	mu  sync.Mutex
	now time.Time
}

func (l *leap) Now() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *leap) After(d time.Duration) <-chan time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = l.now.Add(d)
	ch := make(chan time.Time, 1)
	ch <- l.now
	return ch
}

func (l *leap) Advance(d time.Duration) { <-l.After(d) }

// world is a machine's services, kept in files, so that it outlives a process that is killed. What a
// service does is what stands in the program that it was started from: "1.1.0 good", "1.2.0 dead".
type world struct {
	dir   string // one file a service
	app   string
	clock interface{ Now() time.Time }
	ready time.Time // when a "late" program is up
}

// running is one service.
type running struct {
	Name      string
	Program   string // text of the program
	Started   time.Time
	Children  []string
	BusyUntil time.Time
	Down      bool // at rest: nobody wants it up
	Failing   bool // started again and again in vain, whatever it runs
	Deaf      bool // does not take a restart
	Offline   bool // its control plane cannot be reached from the updater either
	Restarts  int
}

func (w *world) read(name string) running {
	var r running
	b, err := os.ReadFile(filepath.Join(w.dir, name))
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		panic(err)
	}
	return r
}

func (w *world) write(r running) {
	b, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(filepath.Join(w.dir, r.Name+".new"), b, 0o600)
	}
	if err == nil {
		err = os.Rename(filepath.Join(w.dir, r.Name+".new"), filepath.Join(w.dir, r.Name))
	}
	if err != nil {
		panic(err)
	}
}

// start runs what current names, as a service manager does.
func (w *world) start(r *running) {
	b, err := os.ReadFile(filepath.Join(w.app, "current", build.Interlock))
	if err != nil {
		b = []byte("none nothing")
	}
	r.Program, r.Started = string(b), w.clock.Now()
	w.write(*r)
}

func (w *world) Subjects(context.Context) ([]Subject, error) {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return nil, err
	}
	var out []Subject
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".new") {
			out = append(out, service{w, e.Name()})
		}
	}
	return out, nil
}

type service struct {
	*world
	name string
}

func (s service) Name() string { return s.name }

func (s service) Restart(_ context.Context, _ time.Duration) error {
	r := s.read(s.name)
	if r.Deaf {
		return errors.New("it does not listen")
	}
	r.Restarts++
	s.start(&r)
	return nil
}

func (s service) Reach(context.Context) error {
	if s.read(s.name).Offline {
		return errors.New("no route to host")
	}
	return nil
}

func (s service) Health(context.Context) (Health, error) {
	r := s.read(s.name)
	if r.Down {
		return Health{}, errors.New("it does not run")
	}
	if r.Failing {
		s.start(&r)
		return Health{Wanted: true}, errors.New("no such file or directory")
	}
	version, behaviour, _ := strings.Cut(r.Program, " ")
	now := s.clock.Now()
	h := Health{Up: true, Version: version, Heartbeat: now, Children: r.Children, Busy: now.Before(r.BusyUntil)}
	switch behaviour {
	case "dead": // its service manager starts current again and again
		s.start(&r)
		return Health{Wanted: true}, errors.New("connection refused")
	case "hung":
		return Health{Wanted: true}, context.DeadlineExceeded
	case "silent":
		h.Heartbeat = time.Time{}
	case "orphans":
		h.Children, h.Lost = nil, r.Children
		h.Why = "the model could not be adopted"
	case "flaky":
		if now.Sub(r.Started) > 20*time.Second {
			s.start(&r)
			return Health{Wanted: true}, errors.New("connection refused")
		}
	case "late":
		if now.Before(s.ready) {
			return Health{Wanted: true}, errors.New("connection refused")
		}
	case "impostor":
		h.Version = "0.0.1"
	}
	if r.Offline {
		h.Heartbeat = time.Time{}
	}
	return h, nil
}

// rig is a machine with 1.0.0 installed, one control plane, and one service that runs.
type rig struct {
	t      *testing.T
	app    string
	world  *world
	clock  *leap
	repo   *tufrepo.Repo
	server *httptest.Server
	Options
}

var born = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, app: filepath.Join(t.TempDir(), "app"), clock: &leap{now: born}}
	r.install("1.0.0", "1.0.0 good")
	for _, link := range []string{linkCurrent, linkUpdater} {
		if err := os.Symlink("1.0.0", filepath.Join(r.app, link)); err != nil {
			t.Fatal(err)
		}
	}
	r.world = &world{dir: t.TempDir(), app: r.app, clock: r.clock}
	r.serve("den.client", func(*running) {})
	r.repo = tufrepo.New(t, born)
	r.server = r.repo.Serve()
	r.Options = Options{
		App: r.app, Services: r.world, Clock: r.clock, OS: "linux", Arch: "amd64", Machine: "mac_1",
		Origins: []Origin{origin(t, r.server)}, FreeDisk: func(string) (int64, error) { return 1 << 40, nil },
		Logger: slog.New(slog.NewTextHandler(testLog{t}, nil)), Prove: looksForUpdates,
	}
	return r
}

// looksForUpdates is a self-test: a program whose text says that it has no updater fails it.
func looksForUpdates(_ context.Context, program string) error {
	b, err := os.ReadFile(program)
	if strings.Contains(string(b), "no updater") {
		return errors.New("exit status 1")
	}
	return err
}

// testLog shows a log in the test that failed.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Logf("%s", strings.TrimSpace(string(b)))
	return len(b), nil
}

func origin(t testing.TB, s *httptest.Server) Origin {
	t.Helper()
	c, err := client.New(client.Options{BaseURL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return Origin{Name: s.URL, Client: c}
}

func (r *rig) install(version, program string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Join(r.app, version), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.app, version, build.Interlock), []byte(program), 0o755); err != nil {
		r.t.Fatal(err)
	}
}

// serve adds a service that runs what current names.
func (r *rig) serve(name string, change func(*running)) {
	s := running{Name: name, Children: []string{"tiny"}}
	change(&s)
	r.world.start(&s)
}

// release publishes a version whose program does what the word says.
func (r *rig) release(version, behaviour string, change ...func(*build.Target)) {
	r.t.Helper()
	b := build.Target{Program: build.Interlock, Version: version, OS: "linux", Arch: "amd64", Channels: map[string]int{build.Stable: 100}}
	for _, c := range change {
		c(&b)
	}
	r.repo.Add(b, []byte(version+" "+behaviour))
	r.repo.Publish()
}

func (r *rig) updater() *Updater {
	r.t.Helper()
	u, err := New(r.Options)
	if err != nil {
		r.t.Fatal(err)
	}
	return u
}

// run is one pass of the timer that must be able to work.
func (r *rig) run() News {
	r.t.Helper()
	r.clock.Advance(DefaultMinEvery)
	n, err := r.updater().Run(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

func (r *rig) want(n News, state, current string) {
	r.t.Helper()
	if n.Report.State != state || n.Current != current {
		r.t.Fatalf("state %s, current %s; want %s, %s\n%+v", n.Report.State, n.Current, state, current, n)
	}
	r.sound()
}

// sound checks what must hold at every instant: current names a complete program.
func (r *rig) sound() {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.app, "current", build.Interlock))
	if err != nil || len(b) == 0 {
		r.t.Fatalf("current names no program: %v", err)
	}
	if version, _, _ := strings.Cut(string(b), " "); version != folder(r.app).target(linkCurrent) {
		r.t.Fatalf("current names %s and holds %q", folder(r.app).target(linkCurrent), b)
	}
}

func (r *rig) saw(name string) running { return r.world.read(name) }

// why is the newest report's reason, which must hold the words.
func (r *rig) why(n News, words ...string) {
	r.t.Helper()
	for _, w := range words {
		if !strings.Contains(n.Report.Why, w) {
			r.t.Fatalf("the report says %q; want %q in it", n.Report.Why, w)
		}
	}
}

func states(u *Updater) *[]string {
	var out []string
	u.Progress = func(r fleet.UpdateReport) { out = append(out, r.State) }
	return &out
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func contains(err error, words ...string) error {
	if err == nil {
		return errors.New("no error")
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			return fmt.Errorf("%w: %q is not in it", err, w)
		}
	}
	return nil
}
