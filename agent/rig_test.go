package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/hostfacts"
	"interlock.sh/agent/localapi"
	"interlock.sh/agent/supervise"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/testkit/fakellama"
	"interlock.sh/internal/testkit/plane"
)

// quick is for real processes: short between two looks, far above what one step takes.
var quick = supervise.Policy{
	ReadyEvery: 10 * time.Millisecond, ReadyWithin: time.Hour, LoadStall: time.Hour,
	ProbeEvery: time.Hour, ProbeWithin: time.Hour, ProbeAgain: 10 * time.Millisecond,
	BackoffBase: time.Millisecond, BackoffCap: 10 * time.Millisecond,
	CloseWithin: 100 * time.Millisecond, TermAgain: 100 * time.Millisecond, KillAfter: 200 * time.Millisecond, ReapWithin: time.Hour,
}

// rig is one machine on a real control plane, behind a road that a test can block.
type rig struct {
	*testing.T
	plane *plane.Plane
	group plane.Group
	road  *road
	home  enrollment.Home
	e     enrollment.Enrollment
	fake  *clock.Fake   // nil for the machine's own
	one   bool          // the control plane goes by it too
	step  time.Duration // of it at each look of await
	limit time.Time     // that await does not let it pass; zero for none

	lease   time.Duration      // of an attempt; the usual one when 0
	request enrollment.Request // that enrolled it

	free   func(string) (int64, error)
	night  *sitting         // what the owner's ceilings go by
	grace  time.Duration    // for work in hand when they close; the usual one when 0
	policy supervise.Policy // of the model servers
	agent  *Agent
	stop   func()

	leash    supervise.Leash // of the model servers of an agent of its own; the system's when ""
	replaced []string        // versions of agents that made way to another
}

type rigOption func(*rig, *enrollment.Request)

func asTrainer(_ *rig, req *enrollment.Request) { req.Role = fleet.RoleTrainer }
func withMLX(_ *rig, req *enrollment.Request)   { req.Runtime = fleet.MLXLM }

// onFakeTime lets time pass in Await only.
func onFakeTime(r *rig, _ *enrollment.Request) { r.fake = clock.NewFake(time.Now()) }

// onOneClock makes the control plane live on the machine's fake time, which goes slowly then: a lease must not
// run out because this machine is busy.
func onOneClock(r *rig, _ *enrollment.Request) { r.one, r.step = true, slowly }

// slowly is the step for tests that look at how much fake time something took: what await has patience for is
// four minutes of it.
const slowly = 20 * time.Millisecond

// newRig enrolls this machine with the fake llama-server of the script.
func newRig(t *testing.T, cfg fakellama.Config, options ...rigOption) *rig {
	t.Helper()
	r := &rig{T: t, step: time.Second, night: newSitting(), policy: quick, home: enrollment.Home(filepath.Join(t.TempDir(), "ns"))}
	req := enrollment.Request{Role: fleet.RoleClient, Name: "mini", HostID: hostfacts.ID(t.Context()), Version: "test"}
	for _, o := range options {
		o(r, &req)
	}
	o := plane.Options{Lease: r.lease}
	if r.one {
		o.Clock = r.fake
	}
	r.plane = plane.Start(t, o)
	r.group = r.plane.NewGroup(nil, "garage")
	r.road = newRoad(t, r.plane.URL)
	req.Origin, req.Group, req.Key = r.road.URL, r.group.ID, r.group.Keys[req.Role]
	r.request = req
	res, err := r.home.Enroll(t.Context(), req)
	if err != nil {
		t.Fatal("enroll:", err)
	}
	r.e = res.Enrollment
	r.useServer(fakellama.Install(t, cfg))
	return r
}

// useServer names the llama-server in the role's settings.
func (r *rig) useServer(path string) {
	r.Helper()
	file := filepath.Join(r.e.Dir(), "worker.env")
	b, err := os.ReadFile(file)
	if err != nil {
		r.Fatal(err)
	}
	text, _, _ := strings.Cut(string(b), enrollment.EnvLlamaServer)
	if err := os.WriteFile(file, []byte(text+enrollment.EnvLlamaServer+"="+path+"\n"), 0o600); err != nil {
		r.Fatal(err)
	}
}

// set adds a line to the role's settings.
func (r *rig) set(name, value string) {
	r.Helper()
	file := filepath.Join(r.e.Dir(), "worker.env")
	b, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(b, name+"="+value+"\n"...), 0o600)
	}
	if err != nil {
		r.Fatal(err)
	}
}

// start runs the agent until stop, or the test's end.
func (r *rig) start() {
	r.Helper()
	o := Options{Enrollment: r.e, Version: "test", Supervise: r.policy, FreeDisk: r.free, LeaveGrace: r.grace, Logger: slog.New(slog.NewTextHandler(testLog{r.T}, nil))}
	if r.fake != nil {
		o.Clock = r.fake
	}
	r.night.tell(&o, r.fake)
	a, err := New(r.Context(), o)
	if err != nil {
		r.Fatal("make agent:", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	r.agent = a
	r.stop = sync.OnceFunc(func() {
		cancel()
		r.road.open()
		late := time.NewTimer(2 * plane.Patience)
		defer late.Stop()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case err := <-ended:
				if err != nil {
					r.Error("the agent ended:", err)
				}
				return
			case <-tick.C:
				r.pass()
			case <-late.C:
				r.Error("the agent did not end")
				return
			}
		}
	})
	r.Cleanup(r.stop)
}

// testLog is the test's own log, as long as there is one.
type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

// await polls; on fake time a step passes at each look.
func (r *rig) await(what string, ok func() bool) {
	r.Helper()
	plane.Await(r.T, what, func() bool {
		if ok() {
			return true
		}
		r.pass()
		return false
	})
}

// pass lets a step of fake time pass, up to the limit.
func (r *rig) pass() {
	if r.fake == nil {
		return
	}
	step := r.step
	if !r.limit.IsZero() {
		step = min(step, r.limit.Sub(r.fake.Now()))
	}
	if step > 0 {
		r.fake.Advance(step)
	}
}

// deployment is what the agent says of one now.
func (r *rig) deployment(alias string) fleet.DeploymentReport {
	for _, d := range r.agent.Report(context.Background()).Deployments {
		if d.Alias == alias {
			return d
		}
	}
	return fleet.DeploymentReport{}
}

// awaitWords waits until the deployment's state begins with words, and returns its report.
func (r *rig) awaitWords(alias, words string) fleet.DeploymentReport {
	r.Helper()
	var d fleet.DeploymentReport
	defer func() {
		if r.Failed() {
			r.Logf("%s is %q", alias, d.State)
		}
	}()
	r.await(alias+" "+words, func() bool {
		d = r.deployment(alias)
		return strings.HasPrefix(d.State.String(), words)
	})
	return d
}

// awaitMachine waits until the control plane shows the machine in words that begin so.
func (r *rig) awaitMachine(words string) fleet.Machine {
	r.Helper()
	var m fleet.Machine
	defer func() {
		if r.Failed() {
			r.Logf("the control plane says %q, the agent %q", m.State, r.agent.Report(context.Background()).State)
		}
	}()
	r.await("the machine "+words, func() bool {
		got, err := r.plane.Owner.Machine(context.Background(), r.e.Machine)
		m = got.Machine
		return err == nil && strings.HasPrefix(m.State.String(), words)
	})
	return m
}

// door is the owner's door to the agent that runs.
func (r *rig) door() *localapi.Client {
	r.Helper()
	socket, err := r.home.Socket(r.e.Group, r.e.Role)
	if err != nil {
		r.Fatal(err)
	}
	c := localapi.Dial(socket)
	r.await("the agent's door", func() bool {
		_, err := c.Status(context.Background())
		return err == nil
	})
	return c
}

// versions are the folders of deployments on disk.
func (r *rig) versions() []string {
	entries, err := os.ReadDir(r.home.Version(r.e.Group, ""))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// road is what lies between the machine and its control plane.
type road struct {
	*httptest.Server

	mu    sync.Mutex
	rule  func(w http.ResponseWriter, r *http.Request) bool // true: it answered
	seen  func(r *http.Request, began bool)                 // is told the beginning and the end of each request
	asked map[string]int
}

func newRoad(t *testing.T, to string) *road {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	w := &road{asked: map[string]int{}}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		rule, seen := w.rule, w.seen
		w.asked[r.Method+" "+r.URL.Path]++
		w.mu.Unlock()
		if seen != nil {
			seen(r, true)
			defer seen(r, false)
		}
		if rule != nil && rule(rw, r) {
			return
		}
		proxy.ServeHTTP(rw, r)
	}))
	t.Cleanup(func() {
		w.CloseClientConnections()
		w.Close()
	})
	return w
}

func (w *road) rules(rule func(w http.ResponseWriter, r *http.Request) bool) {
	w.mu.Lock()
	w.rule = rule
	w.mu.Unlock()
}

func (w *road) open() { w.rules(nil) }

func (w *road) watch(seen func(r *http.Request, began bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = seen
}

// block breaks every connection, and each that is made.
func (w *road) block() {
	w.rules(func(rw http.ResponseWriter, _ *http.Request) bool { panic(http.ErrAbortHandler) })
	w.CloseClientConnections()
}

// refuse answers requests whose path begins so with a fault.
func (w *road) refuse(path string, f *fault.Error) {
	w.rules(func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, path) {
			return false
		}
		answerFault(rw, f)
		return true
	})
}

func (w *road) times(call string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[call]
}

// answerFault writes a fault as the control plane does.
func answerFault(rw http.ResponseWriter, f *fault.Error) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(f.Code.Status())
	_ = json.NewEncoder(rw).Encode(map[string]any{"error": f}) // the agent is gone: the test will say so
}
