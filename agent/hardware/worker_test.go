package hardware

import (
	"context"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"interlock.sh/access"
	"interlock.sh/agent/mainthread"
	"interlock.sh/agent/supervise"
	"interlock.sh/ai"
	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/testkit"
	"interlock.sh/internal/testkit/fakellama"
	"interlock.sh/internal/testkit/gguftiny"
	"interlock.sh/internal/testkit/plane"
	"interlock.sh/llama"
	"interlock.sh/tasks"
)

// The test binary is the tests, the shim of a leash, and, by its environment, the fake llama-server.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == shimArg { // it passes the fake's environment on
		os.Exit(supervise.RunChild(os.Args[2:]))
	}
	fakellama.MaybeRun()
	os.Exit(mainthread.Run(m.Run))
}

const shimArg = "run-child"

// quick is for real processes: short between two looks, far above what one step takes.
var quick = supervise.Policy{
	ReadyEvery: 10 * time.Millisecond, ReadyWithin: time.Hour, LoadStall: time.Hour, ProbeEvery: time.Hour, ProbeWithin: time.Hour,
	ProbeAgain: 10 * time.Millisecond, BackoffBase: time.Millisecond, BackoffCap: 10 * time.Millisecond,
	CloseWithin: 100 * time.Millisecond, TermAgain: 100 * time.Millisecond, KillAfter: 200 * time.Millisecond, ReapWithin: time.Hour,
}

// rig is a home of a worker on a real control plane.
type rig struct {
	*testing.T
	plane *plane.Plane
	home  Home
	vars  map[string]string
	stop  func() error
}

func newRig(t *testing.T, change ...string) *rig {
	t.Helper()
	r := &rig{T: t, plane: plane.Start(t, plane.Options{}), home: Home(filepath.Join(t.TempDir(), "tw"))}
	files, err := gguftiny.Write(filepath.Join(t.TempDir(), "tiny.gguf"), 1, gguftiny.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.vars = good(append([]string{EnvURL, r.plane.URL, EnvKey, r.plane.NewKey(access.TaskWorker), EnvModel, files[0]}, change...)...)
	r.write()
	return r
}

func (r *rig) write() {
	r.Helper()
	if err := r.home.Write(r.vars); err != nil {
		r.Fatal(err)
	}
}

// start runs the worker until stop, or the test's end.
func (r *rig) start() {
	r.Helper()
	w, err := New(r.Context(), Options{
		Home: r.home, Version: "test", Logger: slog.New(slog.NewTextHandler(logTo{r.T}, nil)), Supervise: quick, Shim: []string{os.Args[0], shimArg},
	})
	if err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	var got error
	done := false
	r.stop = func() error {
		cancel()
		if !done {
			done = true
			got = testkit.Get(r, "the end of the worker", ended)
		}
		return got
	}
	r.Cleanup(func() { _ = r.stop() }) // how it ended is the test's to look at
}

// logTo is the test's own log.
type logTo struct{ t *testing.T }

func (l logTo) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

func (r *rig) awaitWords(words string) State {
	r.Helper()
	var st State
	plane.Await(r, words, func() bool {
		var err error
		st, err = r.home.State()
		return err == nil && strings.HasPrefix(st.Words, words)
	})
	return st
}

// awaitWorker waits until the control plane shows the worker so.
func (r *rig) awaitWorker(state string) {
	r.Helper()
	plane.Await(r, "the worker is "+state, func() bool {
		ws, err := r.plane.Owner.TaskWorkers(r.Context())
		return err == nil && len(ws) == 1 && ws[0].State == state
	})
}

func (r *rig) ask() ai.Run {
	r.Helper()
	run, err := r.plane.Owner.SubmitRun(r.Context(), ai.RunRequest{Model: "tiny", Prompt: "hello"})
	if err != nil {
		r.Fatal("submit:", err)
	}
	if run, err = r.plane.Owner.FollowRun(r.Context(), run.ID, func(string, ai.StreamEvent) error { return nil }); err != nil {
		r.Fatal("follow:", err)
	}
	return run
}

func (r *rig) wantAnswer() {
	r.Helper()
	run := r.ask()
	if run.State != tasks.Succeeded || run.Answer == nil || *run.Answer != "Hello, world." || run.WorkerID != "garage" || run.Route != "ai.self-hosted.tiny" {
		r.Errorf("the run is %+v, error %+v", run, run.Error)
	}
}

// operators is a model server that someone else started.
func (r *rig) operators(cfg fakellama.Config, args ...string) (url string, cmd *exec.Cmd) {
	r.Helper()
	port := testkit.FreePort(r)
	path, env := fakellama.Command(cfg)
	cmd = exec.Command(path, append([]string{"--host", llama.Host, "--port", strconv.Itoa(port), "-m", "/weights/tiny.gguf"}, args...)...)
	cmd.Env = env
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	r.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	return "http://127.0.0.1:" + strconv.Itoa(port), cmd
}

func alive(cmd *exec.Cmd) bool { return cmd.Process.Signal(syscall.Signal(0)) == nil }

func TestAServerOfOurOwnAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t, EnvLlamaServer, fakellama.Install(t, fakellama.Config{}), EnvSlots, "2", EnvContext, "1024")
	r.start()
	st := r.awaitWords("ready")
	if !st.Running || st.ModelPid == 0 || st.Slots != 2 || st.Alias != "tiny" {
		t.Errorf("%+v", st)
	}
	r.awaitWorker("ready")
	r.wantAnswer()
	usage, err := r.plane.Owner.Usage(t.Context(), "", 0)
	if err != nil || len(usage.Events) != 1 || usage.Events[0].WorkerID != "garage" {
		t.Errorf("usage %+v %v", usage, err)
	}
	if err := r.stop(); err != nil {
		t.Error("the end:", err)
	}
	if st, err := r.home.State(); err != nil || st.Running || st.Words != "stopped" {
		t.Errorf("afterwards %+v %v", st, err)
	}
	if err := syscall.Kill(st.ModelPid, 0); err == nil {
		t.Error("the model server outlives the worker")
	}
	// Neither prompt nor answer is in a log.
	logs, err := filepath.Glob(filepath.Join(r.home.Logs(), "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range logs {
		if b, err := os.ReadFile(path); err != nil || strings.Contains(string(b), "hello") || strings.Contains(string(b), "Hello, world") {
			t.Errorf("%s tells what was asked: %v", path, err)
		}
	}
}

// What keeps a server of our own from starting is said with the way out, and looked at again.
func TestWhatBlocksAServerOfOurOwn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change []string
		want   string
	}{
		"no llama-server": {[]string{EnvLlamaServer, "/nowhere/llama-server"}, "blocked: llama-server not found"},
		"no weights":      {[]string{EnvModel, ""}, "blocked: no weights are named for tiny: name the GGUF file in LLM_MODEL"},
		"no such file":    {[]string{EnvModel, "/nowhere.gguf"}, "blocked: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, append([]string{EnvLlamaServer, fakellama.Install(t, fakellama.Config{})}, c.change...)...)
			r.start()
			r.awaitWords(c.want)
			r.awaitWorker("draining") // here, and taking nothing: not offline
			_, err := r.plane.Owner.SubmitRun(t.Context(), ai.RunRequest{Model: "tiny", Prompt: "x"})
			if fault.CodeOf(err) != fault.NoEligibleWorker {
				t.Errorf("a run: %v", err)
			}
		})
	}
}

func TestAServerOfTheOperatorsIsUsedAndNeverSignalled(t *testing.T) {
	t.Parallel()
	r := newRig(t, EnvModel, "")
	url, cmd := r.operators(fakellama.Config{}, "--alias", "tiny", "--api-key", "sesame", "-np", "2", "-c", "4096")
	r.vars[EnvServer], r.vars[EnvServerKey] = url, "sesame"
	r.write()
	r.start()
	if st := r.awaitWords("ready"); st.ModelPid != 0 || st.Slots != 2 || st.Server != url {
		t.Errorf("%+v", st)
	}
	r.awaitWorker("ready")
	r.wantAnswer()
	if err := r.stop(); err != nil {
		t.Error("the end:", err)
	}
	if !alive(cmd) {
		t.Error("the operator's server was ended")
	}
}

// Whatever else stands at the address is not sent a prompt.
func TestServersThatAreNotAdopted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg    fakellama.Config
		args   []string
		change []string
		want   string
	}{
		"another key":     {fakellama.Config{}, []string{"--alias", "tiny", "--api-key", "other"}, []string{EnvServerKey, "sesame"}, "foreign: another program listens"},
		"no key asked":    {fakellama.Config{Squat: true}, nil, []string{EnvServerKey, "sesame"}, "foreign: another program listens"},
		"another model":   {fakellama.Config{}, []string{"--alias", "llama-9"}, nil, `unusable: the server at http://127.0.0.1:`},
		"another file":    {fakellama.Config{}, []string{"--alias", "tiny"}, []string{EnvModel, "/x/other.gguf"}, "unusable: "},
		"too few slots":   {fakellama.Config{}, []string{"--alias", "tiny", "-np", "1"}, []string{EnvSlots, "4"}, "unusable: "},
		"a short context": {fakellama.Config{}, []string{"--alias", "tiny", "-c", "512", "-np", "1"}, []string{EnvContext, "4096"}, "unusable: "},
		"still loading":   {fakellama.Config{LoadMS: 3_600_000}, []string{"--alias", "tiny"}, nil, "loading"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, append([]string{EnvModel, ""}, c.change...)...)
			url, cmd := r.operators(c.cfg, c.args...)
			r.vars[EnvServer] = url
			r.write()
			r.start()
			r.awaitWords(c.want)
			r.awaitWorker("draining")
			if !alive(cmd) {
				t.Error("it was signalled")
			}
		})
	}
}

// A server that goes away and comes back is asked again who it is.
func TestAServerOfTheOperatorsThatComesBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, EnvModel, "")
	url, first := r.operators(fakellama.Config{}, "--alias", "tiny")
	r.vars[EnvServer] = url
	r.write()
	r.start()
	r.awaitWords("ready")
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.awaitWords(url + " does not answer (refused)")
	_, port, err := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	again := exec.Command(first.Path, "--host", llama.Host, "--port", port, "-m", "/weights/tiny.gguf", "--alias", "tiny")
	again.Env = first.Env
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Process.Kill(); _ = again.Wait() }()
	r.awaitWords("ready")
	r.awaitWorker("ready")
	r.wantAnswer()
}

func TestOneWorkerAHome(t *testing.T) {
	t.Parallel()
	r := newRig(t, EnvLlamaServer, fakellama.Install(t, fakellama.Config{}))
	r.start()
	_, err := New(t.Context(), Options{Home: r.home, Logger: slog.New(slog.DiscardHandler)})
	if fault.CodeOf(err) != fault.Conflict || !strings.Contains(err.Error(), "runs already") {
		t.Errorf("a second one: %v", err)
	}
}

func TestAKeyThatWasRevokedEndsTheWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t, EnvLlamaServer, fakellama.Install(t, fakellama.Config{}))
	r.start()
	r.awaitWorker("ready")
	keys, err := r.plane.Owner.Keys(t.Context(), r.plane.Owner.Project())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if k.Kind == access.TaskWorker {
			if _, err := r.plane.Owner.RevokeKey(t.Context(), r.plane.Owner.Project(), k.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.awaitWords("ended: ")
	if err := r.stop(); fault.CodeOf(err) != fault.Revoked {
		t.Errorf("it ended with %v", err)
	}
}

// A worker that was killed left a state that says it runs: its process tells.
func TestTheStateOfAWorkerThatWasKilled(t *testing.T) {
	t.Parallel()
	home := Home(t.TempDir())
	if st, err := home.State(); err != nil || st.Running || st.Words != "not started yet" {
		t.Errorf("before: %+v %v", st, err)
	}
	if err := home.prepare(); err != nil {
		t.Fatal(err)
	}
	f, err := openState(home, "test", Settings{Alias: "tiny", Worker: "garage"}, clock.System)
	if err != nil {
		t.Fatal(err)
	}
	if !f.set(standing{ready: true, words: "ready"}) || f.set(standing{ready: true, words: "ready"}) {
		t.Error("what is a change")
	}
	if st, err := home.State(); err != nil || st.Running || st.Ready || !strings.Contains(st.Words, "ended without a word") {
		t.Errorf("%+v %v", st, err)
	}
	if err := home.Stop(t.Context(), clock.System, time.Second); err != nil {
		t.Errorf("to stop what does not run: %v", err)
	}
	if err := os.WriteFile(statePath(home), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if st, err := home.State(); err != nil || st.Running || !strings.Contains(st.Words, "damaged") {
		t.Errorf("damaged: %+v %v", st, err)
	}
}
