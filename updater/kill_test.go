package updater

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"interlock.sh/client"
	"interlock.sh/fleet/build"
	"interlock.sh/internal/testkit/tufrepo"
)

// The test binary is two programs: the tests, and an updater that kills itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		if err := child(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// More at once than there are cores: they wait for disks and for slow mirrors.
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(max(atOnce, runtime.GOMAXPROCS(0)))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

const atOnce = 8

const childArg = "updater-child"

// child is one pass: child APP WORLD URL NOW KILL. At the KILL-th durable step it kills itself.
func child(args []string) error {
	now, err := time.Parse(time.RFC3339Nano, args[3])
	if err != nil {
		return err
	}
	kill, err := strconv.Atoi(args[4])
	if err != nil {
		return err
	}
	c, err := client.New(client.Options{BaseURL: args[2]})
	if err != nil {
		return err
	}
	clk := &leap{now: now}
	u, err := New(Options{
		App: args[0], Services: &world{dir: args[1], app: args[0], clock: clk}, Clock: clk, OS: "linux", Arch: "amd64", Machine: "mac_1",
		Origins: []Origin{{Name: args[2], Client: c}},
	})
	if err != nil {
		return err
	}
	u.reached = func(string) {
		if kill--; kill == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // there is no after
		}
	}
	_, err = u.Run(context.Background())
	return err
}

func (r *rig) child(url string, kill int) *exec.Cmd {
	return exec.CommandContext(r.t.Context(), os.Args[0], childArg, r.app, r.world.dir, url, r.clock.Now().Format(time.RFC3339Nano), strconv.Itoa(kill))
}

// steps are the durable steps of a pass, in order.
func steps(t *testing.T, behaviour string) []string {
	r := newRig(t)
	r.release("1.1.0", behaviour)
	u := r.updater()
	var out []string
	u.reached = func(s string) { out = append(out, s) }
	_, err := u.Run(t.Context())
	must(t, err)
	return out
}

// finish runs passes until nothing is under way, and checks how it ended.
func (r *rig) finish(state, current string) {
	r.t.Helper()
	r.clock.Advance(time.Hour)
	var n News
	for range 5 {
		if n = r.run(); n.Report.State == state {
			break
		}
		r.sound()
	}
	r.want(n, state, current)
	if got := r.saw("den.client").Program; !strings.HasPrefix(got, current+" ") {
		r.t.Fatalf("the service runs %q, current is %s", got, current)
	}
	if got := folder(r.app).target(linkUpdater); got != current {
		r.t.Fatalf("the updater link names %s", got)
	}
	for _, name := range names(r.t, r.app) {
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".tmp") {
			r.t.Errorf("%s was left", name)
		}
	}
}

// SIGKILL at every durable step of an update, good and bad: the machine runs right after it, and the next
// passes end as if nothing had happened.
func TestSIGKILLAtEveryStep(t *testing.T) {
	t.Parallel()
	for behaviour, end := range map[string][2]string{"good": {Current, "1.1.0"}, "dead": {Reverted, "1.0.0"}} {
		for i, step := range steps(t, behaviour) {
			t.Run(fmt.Sprintf("%s/%d-%s", behaviour, i+1, step), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.release("1.1.0", behaviour)
				out, err := r.child(r.server.URL, i+1).CombinedOutput()
				if err == nil || !strings.Contains(err.Error(), "killed") {
					t.Fatalf("the child ended with %v: %s", err, out)
				}
				r.sound()
				r.finish(end[0], end[1])
			})
		}
	}
}

// A second SIGKILL at the step where the first pass was killed: nothing needs a step to be reached twice.
func TestSIGKILLTwice(t *testing.T) {
	t.Parallel()
	for i := range steps(t, "dead") {
		t.Run(strconv.Itoa(i+1), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.release("1.1.0", "dead")
			for _, kill := range []int{i + 1, 1, 2} {
				out, err := r.child(r.server.URL, kill).CombinedOutput()
				if err != nil && !strings.Contains(err.Error(), "killed") {
					t.Fatalf("the child ended with %v: %s", err, out)
				}
				r.sound()
				r.clock.Advance(time.Hour)
			}
			r.finish(Reverted, "1.0.0")
		})
	}
}

// SIGKILL at every request: in the middle of each metadata file and of the program.
func TestSIGKILLAtEveryRequest(t *testing.T) {
	t.Parallel()
	for at := 1; at <= 6; at++ {
		t.Run(strconv.Itoa(at), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.release("1.1.0", "good")
			var count atomic.Int32
			pid := make(chan int, 1)
			server := tufrepo.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if int(count.Add(1)) != at {
					r.repo.ServeHTTP(w, req)
					return
				}
				w.Header().Set("Content-Length", "100")
				_, _ = w.Write([]byte("{")) // a part, and then the end of the reader
				_ = http.NewResponseController(w).Flush()
				_ = syscall.Kill(<-pid, syscall.SIGKILL)
			}))
			cmd := r.child(server.URL, 0)
			must(t, cmd.Start())
			pid <- cmd.Process.Pid
			if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Fatalf("the child ended with %v after %d requests", err, count.Load())
			}
			r.sound()
			r.finish(Current, "1.1.0")
		})
	}
}

// What a power cut or a bad disk leaves is mended, and never leaves the machine without a program.
func TestWhatACrashDamagedIsMended(t *testing.T) {
	t.Parallel()
	damage := func(path string) func(*rig) {
		return func(r *rig) { must(r.t, os.WriteFile(r.app+"/"+path, []byte(`{"signed": {"_ty`), 0o600)) }
	}
	for name, hurt := range map[string]func(*rig){
		"the state":             damage("trust/state.json"),
		"the root of trust":     damage("trust/root.json"),
		"the report":            damage("trust/report.json"),
		"the kept root":         damage("trust/metadata/root.json"),
		"the kept targets":      damage("trust/metadata/targets.json"),
		"no trust but the root": func(r *rig) { must(r.t, os.Remove(r.app+"/trust/state.json")) },
		"current is gone":       func(r *rig) { must(r.t, os.Remove(r.app+"/current")) },
		"current names nothing": func(r *rig) {
			must(r.t, os.Remove(r.app+"/current"))
			must(r.t, os.Symlink("7.7.7", r.app+"/current"))
		},
		"current is half a file": func(r *rig) { must(r.t, os.Truncate(r.app+"/1.1.0/interlock", 3)) },
		"current is empty":       func(r *rig) { must(r.t, os.Truncate(r.app+"/1.1.0/interlock", 0)) },
		"every mirror's copy": func(r *rig) {
			for _, role := range []string{"root", "timestamp", "snapshot", "targets"} {
				must(r.t, os.WriteFile(folder(r.app).mirror(r.Origins[0])+"/"+role+".json", []byte{0, 0, 0}, 0o600))
			}
		},
		"an empty copy": func(r *rig) {
			must(r.t, os.Truncate(folder(r.app).mirror(r.Origins[0])+"/timestamp.json", 0))
		},
		"leftovers": func(r *rig) {
			must(r.t, os.Mkdir(r.app+"/.staging-123", 0o700))
			must(r.t, os.Symlink("x", r.app+"/current.tmp"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.release("1.1.0", "good")
			r.want(r.run(), Current, "1.1.0")
			hurt(r)
			r.release("1.2.0", "good")
			r.finish(Current, "1.2.0")
		})
	}
}

// A state that was lost in the middle of a verdict: the links say that it was open.
func TestAVerdictSurvivesTheLossOfTheState(t *testing.T) {
	t.Parallel()
	for behaviour, end := range map[string][2]string{"good": {Current, "1.1.0"}, "dead": {Reverted, "1.0.0"}} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.release("1.1.0", behaviour)
			at := 0
			for i, s := range steps(t, behaviour) {
				if s == "watching" {
					at = i + 1
				}
			}
			if err := r.child(r.server.URL, at).Run(); err == nil {
				t.Fatal("the child was not killed")
			}
			must(t, os.WriteFile(r.app+"/trust/state.json", []byte("{"), 0o600))
			r.finish(end[0], end[1])
		})
	}
}

// A machine with nothing complete left is told so; there is nothing that could be started.
func TestNoCompleteProgram(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	must(t, os.Remove(r.app+"/1.0.0/"+build.Interlock))
	if _, err := r.updater().Run(t.Context()); contains(err, "holds no complete interlock", "install line") != nil {
		t.Fatal(err)
	}
}
