package cli

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/localapi"
	"interlock.sh/cli/profile"
	"interlock.sh/fleet"
	programs "interlock.sh/fleet/build"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/testkit/tufrepo"
	"interlock.sh/updater"
)

// lab is a machine with version 1.0.0 installed, enrolled at a control plane that offers releases.
type lab struct {
	*testing.T
	home enrollment.Home
	repo *tufrepo.Repo
	e    enrollment.Enrollment
	url  string
	in   string // of its command lines
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{T: t, home: enrollment.Home(t.TempDir()), repo: tufrepo.New(t, time.Now())}
	t.Setenv(enrollment.EnvHome, string(l.home))
	l.url = l.repo.Serve().URL
	l.e = enrollment.Enrollment{Home: l.home, Group: "my-model-k3x7qa", Role: fleet.RoleClient}
	l.write(filepath.Join(l.home.Group(l.e.Group), "group.json"), `{"schema":1,"modelId":"my-model-k3x7qa","name":"my-model","project":"home","origin":"`+l.url+`"}`, 0o600)
	l.write(filepath.Join(l.e.Dir(), "role.json"), `{"schema":1,"role":"client","runtime":"llama.cpp","machine":"mch_1","machineName":"den","hostId":"h"}`, 0o600)
	l.write(filepath.Join(l.e.Dir(), "worker.env"), "INTERLOCK_MACHINE_CREDENTIAL=ilm_x\n", 0o600)
	l.write(filepath.Join(string(l.home), "app", "1.0.0", "interlock"), l.program("1.0.0"), 0o755)
	for _, link := range []string{"current", "updater"} {
		if err := os.Symlink("1.0.0", filepath.Join(string(l.home), "app", link)); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func (l *lab) write(path, text string, mode os.FileMode) {
	l.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		l.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		l.Fatal(err)
	}
}

// program says its version, as all do.
func (l *lab) program(version string) string { return "#!/bin/sh\necho interlock " + version + "\n" }

func (l *lab) release(program, version, text string) {
	l.Helper()
	l.repo.Add(programs.Target{
		Program: program, Version: version, OS: runtime.GOOS, Arch: runtime.GOARCH, Channels: map[string]int{programs.Stable: 100},
	}, []byte(text))
	l.repo.Publish()
}

// interlock runs one command line.
func (l *lab) interlock(args ...string) (code int, out, errs string) {
	l.Helper()
	var o, e bytes.Buffer
	env := Env{Env: profile.Env{Home: string(l.home), Dir: l.TempDir(), Getenv: func(string) string { return "" }}, Program: "interlock"}
	code = Run(l.Context(), args, Stdio{In: strings.NewReader(l.in), Out: &o, Err: &e}, env)
	return code, o.String(), e.String()
}

func (l *lab) wants(code int, words []string, args ...string) string {
	l.Helper()
	got, out, errs := l.interlock(args...)
	if got != code {
		l.Fatalf("interlock %v: exit code %d, want %d\n%s%s", args, got, code, out, errs)
	}
	for _, w := range words {
		if !strings.Contains(out+errs, w) {
			l.Fatalf("interlock %v said\n%s%s\nwant %q in it", args, out, errs, w)
		}
	}
	return out
}

func TestAgentUpdate(t *testing.T) {
	l := newLab(t)
	l.wants(0, []string{"version  1.0.0", "nobody has looked for updates yet"}, "agent", "update")
	l.release("interlock", "1.1.0", l.program("1.1.0"))
	l.wants(0, []string{"newest   1.1.0", "available 1.1.0", "from " + l.url + ": ok"}, "agent", "update", "--check")
	l.wants(0, []string{"version   1.1.0", "previous  1.0.0", "interlock: watching 1.1.0"}, "agent", "update", "--now")
	l.release("interlock", "1.2.0", "#!/bin/sh\necho dynamic linker trouble >&2\nexit 127\n")
	l.wants(1, []string{"version   1.1.0", "reverted 1.2.0: it does not start: exit status 127: dynamic linker trouble; it never took over"}, "agent", "update", "--now")
	l.wants(1, []string{"version 1.2.0 is kept out of this machine", "--force takes it all the same"}, "agent", "update", "--now", "--version", "1.2.0")
	l.wants(0, []string{"version  1.0.0", "not taken: 1.1.0: rolled back by hand to 1.0.0"}, "agent", "update", "--rollback")
	var n updater.News
	if err := json.Unmarshal([]byte(l.wants(0, nil, "agent", "update", "--json")), &n); err != nil || n.Current != "1.0.0" || n.Report.State != updater.Current || len(n.Mirrors) != 1 {
		t.Fatalf("%+v, %v", n, err)
	}
	for _, args := range [][]string{
		{"--check", "--now"}, {"--version", "1.0.0"}, {"--now", "--force"}, {"--channel", "canary"}, {"now"},
	} {
		l.wants(ExitUsage, nil, append([]string{"agent", "update"}, args...)...)
	}
	l.wants(1, []string{`channel is "beta"`}, "agent", "update", "--now", "--channel", "beta")
	l.wants(0, []string{"timer looks", "--no-service, they come by --now alone"}, "agent", "update", "--help")
}

// What the timer starts works from the folder and the enrollments alone.
func TestUpdaterRun(t *testing.T) {
	l := newLab(t)
	l.release("interlock", "1.1.0", l.program("1.1.0"))
	l.wants(0, nil, "updater", "run")
	l.wants(0, []string{"version   1.1.0"}, "agent", "update")
	v, err := updater.VerifyInstalled(filepath.Join(string(l.home), "app"), "interlock", runtime.GOOS, runtime.GOARCH)
	if err != nil || !v.Signed {
		t.Fatalf("%+v, %v", v, err)
	}
	l.wants(ExitUsage, []string{"lengths of time above zero"}, "updater", "run", "--deadline", "0s")
	l.wants(1, []string{"is not there: nothing is installed"}, "updater", "run", "--app", filepath.Join(string(l.home), "app-01234567"))
}

// A machine that was installed in another way is told so.
func TestAgentUpdateWithoutAnAppFolder(t *testing.T) {
	l := newLab(t)
	if err := os.RemoveAll(filepath.Join(string(l.home), "app")); err != nil {
		t.Fatal(err)
	}
	l.wants(1, []string{"holds no programs", "interlock update"}, "agent", "update", "--check")
}

func TestUpdateReplacesProgramsThatStandAlone(t *testing.T) {
	l := newLab(t)
	dir := t.TempDir()
	for _, name := range []string{"interlock", "interlock-tui"} {
		l.write(filepath.Join(dir, name), l.program("0.1.0"), 0o755)
	}
	l.release("interlock", "1.1.0", l.program("1.1.0"))
	o, err := mirror(l.url, "", false)
	if err != nil {
		t.Fatal(err)
	}
	a := &app{clock: clock.System, env: Env{Env: profile.Env{Home: string(l.home)}}}
	got, err := a.updatePrograms(t.Context(), o, filepath.Join(dir, "interlock"), "1.1.0")
	want := []updated{{"interlock", filepath.Join(dir, "interlock"), "1.1.0", true}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("%v %s", err, diff)
	}
	l.release("interlock-tui", "1.0.5", l.program("1.0.5"))
	got, err = a.updatePrograms(t.Context(), o, filepath.Join(dir, "interlock"), "")
	if err != nil || len(got) != 2 || got[1].Version != "1.0.5" || !got[1].Fresh {
		t.Fatalf("%+v %v", got, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "interlock-tui")); err != nil || string(b) != l.program("1.0.5") {
		t.Fatalf("%s, %v", b, err)
	}
}

func TestHealthOfAnAgent(t *testing.T) {
	seen := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	deployment := func(alias string, kind fleet.StateKind, busy int) fleet.DeploymentReport {
		return fleet.DeploymentReport{Alias: alias, State: fleet.State{Kind: kind}, Busy: busy}
	}
	base := func(change func(*localapi.Status)) localapi.Status {
		st := localapi.Status{Pid: 7, Version: "1.0.0", Owner: fleet.Active, Server: fleet.Active, Hours: fleet.Hours{Mode: "always", Open: true}, LastSeen: &seen}
		change(&st)
		return st
	}
	for name, c := range map[string]struct {
		st   localapi.Status
		want updater.Health
	}{
		"idle": {base(func(*localapi.Status) {}), updater.Health{Up: true, Version: "1.0.0", Heartbeat: seen}},
		"serving and loading": {base(func(st *localapi.Status) {
			st.Report.Deployments = []fleet.DeploymentReport{deployment("a", fleet.StateReady, 0), deployment("b", fleet.StateFull, 2), deployment("c", fleet.StateLoading, 0)}
		}), updater.Health{Up: true, Version: "1.0.0", Heartbeat: seen, Busy: true, Children: []string{"a", "b", "c"}}},
		"one is lost": {base(func(st *localapi.Status) {
			st.Report.Deployments = []fleet.DeploymentReport{deployment("a", fleet.StateBlocked, 0)}
		}), updater.Health{Up: true, Version: "1.0.0", Heartbeat: seen, Lost: []string{"a"}, Why: "a: blocked"}},
		"it rests by the owner's hours": {base(func(st *localapi.Status) {
			st.Hours.Open = false
			st.Report.Deployments = []fleet.DeploymentReport{deployment("a", fleet.StatePaused, 0)}
		}), updater.Health{Up: true, Version: "1.0.0", Heartbeat: seen}},
		"it rests by the control plane": {base(func(st *localapi.Status) {
			st.Server = fleet.Paused
			st.Report.Deployments = []fleet.DeploymentReport{deployment("a", fleet.StatePaused, 0)}
		}), updater.Health{Up: true, Version: "1.0.0", Heartbeat: seen}},
		"an older agent without hours": {base(func(st *localapi.Status) {
			st.Hours = fleet.Hours{}
			st.LastSeen = nil
			st.LastError = "no answer"
			st.Report.Deployments = []fleet.DeploymentReport{deployment("a", fleet.StateParked, 0)}
		}), updater.Health{Up: true, Version: "1.0.0", Lost: []string{"a"}, Why: "no answer"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, healthOf(c.st)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// An agent that listens is told, with the time that it may take; nothing is ended.
func TestRestartIsTold(t *testing.T) {
	l := newLab(t)
	socket, err := l.home.Socket(l.e.Group, l.e.Role)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 1)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.URL.String()
		_, _ = w.Write([]byte("{}"))
	})}
	go s.Serve(ln) //nolint:errcheck // ends with the test
	t.Cleanup(func() { _ = s.Close() })
	all := &agents{app: filepath.Join(string(l.home), "app"), all: []enrollment.Enrollment{l.e}}
	subjects, err := all.Subjects(t.Context())
	if err != nil || len(subjects) != 1 || subjects[0].Name() != "my-model-k3x7qa/client" {
		t.Fatalf("%v %v", subjects, err)
	}
	if err := subjects[0].Restart(t.Context(), 30*time.Minute); err != nil {
		t.Fatal(err)
	}
	if got := <-asked; got != "POST /restart?within=30m0s" {
		t.Errorf("asked %s", got)
	}
}
