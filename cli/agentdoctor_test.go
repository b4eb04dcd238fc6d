package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"interlock.sh/agent"
	"interlock.sh/agent/awake"
	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/hostfacts"
	"interlock.sh/agent/localapi"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/installer/service"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/testkit/fakellama"
	"interlock.sh/internal/testkit/plane"
	"interlock.sh/updater"
)

var update = flag.Bool("update", false, "write what the doctor says now into testdata")

// patient is a machine with a real agent that serves a model, on a real control plane behind a road that a
// test can spoil. What the service manager and the updater say of it is told.
type patient struct {
	*testing.T
	doctor
	plane   *plane.Plane
	origin  string
	e       enrollment.Enrollment
	options agent.Options
	cfg     fakellama.Config
	road    atomic.Pointer[http.HandlerFunc] // answers instead of the control plane
	dates   atomic.Int64                     // by how much its clock differs
	stop    func()
	door    *localapi.Client
}

func newPatient(t *testing.T, before func(*patient)) *patient {
	t.Helper()
	p := &patient{T: t, plane: plane.Start(t, plane.Options{})}
	target, err := url.Parse(p.plane.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	proxy.ModifyResponse = func(r *http.Response) error {
		r.Header.Set("Date", time.Now().Add(time.Duration(p.dates.Load())).UTC().Format(http.TimeFormat))
		return nil
	}
	road := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer := p.road.Load(); answer != nil {
			(*answer)(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { road.CloseClientConnections(); road.Close() })
	p.origin = road.URL

	home := enrollment.Home(filepath.Join(t.TempDir(), "ns"))
	group := p.plane.NewGroup(nil, "garage")
	res, err := home.Enroll(t.Context(), enrollment.Request{
		Origin: road.URL, Group: group.ID, Key: group.Keys[fleet.RoleClient], Role: fleet.RoleClient, Name: "mini",
		HostID: hostfacts.ID(t.Context()), Version: "1.0.0",
	})
	if err != nil {
		t.Fatal("enroll:", err)
	}
	p.e = res.Enrollment
	now := time.Now()
	p.doctor = thisDoctor(t.Context(), p.e, now)
	p.report = func() *fleet.UpdateReport {
		return &fleet.UpdateReport{State: "current", Version: "1.0.0", At: now.Add(-20 * time.Minute)}
	}
	p.program = func() (updater.Verified, error) {
		return updater.Verified{Version: "1.0.0", Signed: true, Pinned: true, Detail: "1.0.0 is signed, byte by byte"}, nil
	}
	p.rooted = func() bool { return true }
	unit := workerSpec(p.e, "app").Name()
	p.serviceSays(service.State{Name: unit, Installed: true, Enabled: true, Active: true, Words: "active (running)"})
	p.options = agent.Options{
		Enrollment: p.e, Version: "1.0.0", Outside: func() ([]net.IP, error) { return nil, nil },
		FreeDisk: func(string) (int64, error) { return 100 << 30, nil },
		Awake:    func(context.Context) (awake.Lock, error) { return awake.Lock{Release: func() {}}, nil },
	}
	if before != nil {
		before(p)
	}
	p.setServer(fakellama.Install(t, p.cfg))
	p.plane.Deploy(nil, group, "tiny", 1)
	p.start()
	return p
}

func (p *patient) serviceSays(st service.State) {
	p.service = func(context.Context) (service.State, error) { return st, nil }
}

func (p *patient) setServer(path string) {
	p.Helper()
	file := filepath.Join(p.e.Dir(), "worker.env")
	b, err := os.ReadFile(file)
	if err != nil {
		p.Fatal(err)
	}
	text, _, _ := strings.Cut(string(b), enrollment.EnvLlamaServer)
	if err := os.WriteFile(file, []byte(text+enrollment.EnvLlamaServer+"="+path+"\n"), 0o600); err != nil {
		p.Fatal(err)
	}
}

// start runs the agent until stop, or the test's end, and waits until it serves.
func (p *patient) start() {
	p.Helper()
	ag, err := agent.New(p.Context(), p.options)
	if err != nil {
		p.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ag.Run(ctx) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			p.Error("the agent ended:", err)
		}
	})
	p.Cleanup(p.stop)
	socket, err := p.e.Home.Socket(p.e.Group, p.e.Role)
	if err != nil {
		p.Fatal(err)
	}
	p.door = localapi.Dial(socket)
	p.running = func(ctx context.Context) ([]localapi.Check, error) { return p.door.Doctor(ctx, false) }
	plane.Await(p.T, "a model that serves", func() bool {
		st, err := p.door.Status(context.Background())
		return err == nil && st.State.Serving()
	})
}

func (p *patient) answer(f http.HandlerFunc) { p.road.Store(&f) }

// examine is what the doctor prints, and whether the exit code is 0.
func (p *patient) examine() (string, bool) {
	p.Helper()
	var out bytes.Buffer
	a := &app{Stdio: Stdio{Out: &out, Err: io.Discard}, clock: clock.System}
	err := a.showChecks(p.checks(p.Context()), false)
	var code *exit
	if err != nil && (!errors.As(err, &code) || code.code != ExitError) {
		p.Fatalf("the doctor ends with %v", err)
	}
	return p.plain(out.String()), err == nil
}

// plain puts fixed words where machines, days and runs differ.
func (p *patient) plain(text string) string {
	for _, r := range [][2]string{{string(p.e.Home), "~/.nightshift"}, {p.origin, "https://fleet.example"}, {p.e.Group, "garage-abc234"}, {p.e.Machine, "mac_1"}} {
		text = strings.ReplaceAll(text, r[0], r[1])
	}
	text = regexp.MustCompile(`/\S*/(llama-server|none)\b`).ReplaceAllString(text, "/opt/$1")
	for pattern, with := range map[string]string{
		`port \d+`: "port 40000", `one token in \S+`: "one token in 12ms", `the connection broke: .*`: "the connection broke: EOF", `after \d+(\.\d+)?m?s:`: "after 12ms:",
		`127\.0\.0\.1:\d+`: "127.0.0.1:40000", `ilm_\S+…`: "ilm_abc123…", `\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`: "2026-11-30 12:00:00",
		`\d+\.\d\d GiB free`: "93.13 GiB free", `file \S+\.gguf`: "file tiny.gguf",
	} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, with)
	}
	return text
}

func TestDoctorOfAHealthyMachineAndOfBrokenOnes(t *testing.T) {
	unit := func(p *patient) string { return workerSpec(p.e, "app").Name() }
	for name, c := range map[string]struct {
		before func(*patient) // before the agent starts
		spoil  func(*patient)
		fails  string // the line that must say so, and is the only one
		way    string // its way out
		warns  bool   // that is a warning, and the exit code stays 0
		others bool   // other lines fail as well
	}{
		"healthy": {},
		"permissions": {
			spoil: func(p *patient) { must(p, os.Chmod(filepath.Join(p.e.Dir(), "worker.env"), 0o644)) },
			fails: "credential file", way: "chmod 600 ~/.nightshift",
		},
		"folder": {
			spoil: func(p *patient) { must(p, os.Chmod(p.e.Dir(), 0o755)) },
			fails: "state folder", way: "chmod 700 ~/.nightshift",
		},
		"clock": {
			spoil: func(p *patient) { p.dates.Store(int64(20 * time.Minute)) },
			fails: "clock", way: "timedatectl set-ntp true",
		},
		"disk": {
			before: func(p *patient) { p.options.FreeDisk = func(string) (int64, error) { return 2 << 30, nil } },
			fails:  "disk", way: "free some space",
		},
		"open-port": {
			// As if it were an address that others reach.
			before: func(p *patient) {
				p.options.Outside = func() ([]net.IP, error) { return []net.IP{net.IPv4(127, 0, 0, 1)}, nil }
			},
			fails: "boundary tiny", way: "from the deployment's arguments",
		},
		"revoked": {
			spoil: func(p *patient) {
				if _, err := p.plane.Owner.ActOnMachine(p.Context(), p.e.Machine, "revoke"); err != nil {
					p.Fatal(err)
				}
				plane.Await(p.T, "an agent that knows, and serves nothing", func() bool {
					st, err := p.door.Status(context.Background())
					return err == nil && strings.Contains(st.Words, "revoked") && len(st.Report.Deployments) == 0
				})
			},
			fails: "control plane", way: "run the install line with a fresh key", others: true,
		},
		"unreachable": {
			spoil: func(p *patient) { p.answer(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }) },
			fails: "control plane", way: "check the server and the network",
		},
		"portal": {
			spoil: func(p *patient) {
				p.answer(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/html")
					_, _ = io.WriteString(w, "<html>Welcome to the hotel")
				})
			},
			fails: "control plane", way: "sign in",
		},
		"no-llama-server": {
			spoil: func(p *patient) { p.setServer(filepath.Join(p.TempDir(), "none")) },
			fails: "llama-server", way: "correct the setting",
		},
		"checksum": {
			spoil: func(p *patient) {
				p.program = func() (updater.Verified, error) {
					return updater.Verified{}, fault.New(fault.HashMismatch, "~/.nightshift/app/1.0.0/interlock has SHA-256 0f3c…; the release 1.0.0 was signed with 77aa…").
						WithHint("somebody or something changed it: interlock agent update --now --version 1.0.0 brings the signed one back")
				}
			},
			fails: "program", way: "interlock agent update --now",
		},
		"updates-stopped": {
			spoil: func(p *patient) {
				p.report = func() *fleet.UpdateReport {
					return &fleet.UpdateReport{State: "stopped", Why: "the metadata of https://fleet.example ended on 2026-11-01", At: p.now}
				}
			},
			fails: "updates", way: "interlock release refresh",
		},
		// As after a first install, by the control plane's defaults.
		"no-signed-releases": {
			spoil: func(p *patient) {
				p.rooted = func() bool { return false }
				p.program = func() (updater.Verified, error) {
					return updater.Verified{Version: "1.0.0", Pinned: true, Detail: "1.0.0 was installed by the install line and is not verified by a signed release yet"}, nil
				}
				p.report = func() *fleet.UpdateReport {
					return &fleet.UpdateReport{State: "none", Version: "1.0.0", Why: "https://fleet.example offers no signed releases (/model-worker/tuf/metadata/1.root.json is not there)", At: p.now}
				}
			},
			fails: "updates", way: "interlock release keys init", warns: true,
		},
		"update-reverted": {
			spoil: func(p *patient) {
				p.report = func() *fleet.UpdateReport {
					return &fleet.UpdateReport{State: "reverted", Version: "1.1.0", Why: "no heartbeat was accepted within 5m0s", At: p.now}
				}
			},
			fails: "updates", way: "the version before it runs", warns: true,
		},
		"nobody-looks-for-updates": {
			spoil: func(p *patient) {
				p.report = func() *fleet.UpdateReport {
					return &fleet.UpdateReport{State: "current", At: p.now.Add(-50 * time.Hour)}
				}
			},
			fails: "updates", way: "interlock agent update --check", warns: true,
		},
		"service-failed": {
			spoil: func(p *patient) {
				p.serviceSays(service.State{Name: unit(p), Installed: true, Enabled: true, Words: "failed (exit-code)"})
			},
			fails: "service", way: "interlock agent service restart",
		},
		"service-missing": {
			spoil: func(p *patient) { p.serviceSays(service.State{Name: unit(p)}) },
			fails: "service", way: "interlock agent service install", warns: true,
		},
		"no-service-manager": {
			spoil: func(p *patient) {
				p.service = func(context.Context) (service.State, error) {
					return service.State{}, fault.New(fault.Conflict, "pid 1 of this machine is sh, neither systemd nor launchd")
				}
			},
			fails: "service", way: "interlock agent start", warns: true,
		},
		"inhibitor": {
			before: func(p *patient) {
				p.options.Awake = func(context.Context) (awake.Lock, error) {
					return awake.Lock{}, errors.New("org.freedesktop.DBus.Error.AccessDenied: Permission denied")
				}
			},
			fails: "awake", way: "set the machine never to sleep", warns: true,
		},
		"model-dies": {
			before: func(p *patient) { p.cfg = fakellama.Config{CrashAfter: 2} },
			fails:  "answer tiny", way: "interlock agent logs --deployment tiny",
		},
		"agent-down": {
			spoil: func(p *patient) {
				p.stop()
				p.serviceSays(service.State{Name: unit(p)})
			},
			fails: "agent", way: "interlock agent start", others: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t, c.before)
			if c.spoil != nil {
				c.spoil(p)
			}
			text, fine := p.examine()
			if fine != (c.fails == "" || c.warns) {
				t.Errorf("the exit code says fine: %v", fine)
			}
			compare(t, name, text)
			p.wantLines(text, c.fails, c.way, c.warns, c.others)
		})
	}
}

// wantLines looks at every line: what is wrong has a way out, and what is not named is fine.
func (p *patient) wantLines(text, fails, way string, warns, others bool) {
	p.Helper()
	found := fails == ""
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		mark, rest, _ := strings.Cut(line, "  ")
		if mark == "" {
			continue // a way out
		}
		next := ""
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "      ") {
			next = strings.TrimSpace(lines[i+1])
		}
		bad := strings.TrimSpace(mark) != "ok"
		if bad != strings.HasPrefix(next, "→ ") {
			p.Errorf("line %q has the way out %q", line, next)
		}
		named := fails != "" && strings.HasPrefix(rest, fails+" ")
		if named {
			found = true
			if want := map[bool]string{true: "warn", false: "FAIL"}[warns]; mark != want || !strings.Contains(next, way) {
				p.Errorf("line %q with %q, want %s and %q", line, next, want, way)
			}
		} else if bad && !others && !strings.HasPrefix(rest, "disk ") {
			p.Errorf("also wrong: %q", line)
		}
	}
	if !found {
		p.Errorf("no line of %s", fails)
	}
}

func compare(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "doctor", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("the doctor's words changed (-want +got); -update writes them:\n%s", d)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The way out of what the shared checks find is asked for in their own package; here the switches of a
// program that was never installed.
func TestDoctorOfAProgramOutsideTheAgentsFolder(t *testing.T) {
	home := enrollment.Home(t.TempDir())
	d := thisDoctor(t.Context(), enrollment.Enrollment{Home: home, Group: "g", Role: fleet.RoleClient}, time.Now())
	checks := d.checkProgram()
	if !checks[0].OK || !strings.Contains(checks[0].Detail, "outside the agent's folder") || !checks[1].OK {
		t.Errorf("%+v", checks)
	}
	if c := d.checkUpdates(); !c.OK || c.Warn {
		t.Errorf("%+v", c)
	}
	// A half-installed one: a link that leads nowhere.
	must(t, errors.Join(os.Mkdir(filepath.Join(string(home), "app"), 0o700), os.Symlink("1.0.0", filepath.Join(string(home), "app", "current"))))
	if c := d.checkProgram()[0]; c.OK || c.Fix == "" {
		t.Errorf("%+v", c)
	}
}
