package supervise

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/testkit/fakellama"
)

func TestReadyUseDrainStop(t *testing.T) {
	eachLeash(t, func(t *testing.T, leash Leash) {
		control := fakellama.NewControl(t)
		c := add(t, newSupervisor(t, leash, quick), &fakeDriver{cfg: fakellama.Config{Control: control.Path(), GateLoad: true}})
		if _, err := c.Acquire(); !errors.Is(err, fault.Unavailable) {
			t.Fatalf("a stopped child was leased: %v", err)
		}
		c.Start()
		st := awaitState(t, c, Loading)
		if st.PID == 0 || st.Port == 0 || st.Starts != 1 {
			t.Fatalf("loading: %+v", st)
		}
		control.FinishLoad()
		awaitState(t, c, Ready)
		lease, err := c.Acquire()
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(lease.At.KeyFile); err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("key file: %v, %v", info, err)
		}
		drained := make(chan error, 1)
		go func() { drained <- c.Drain(t.Context(), patience) }()
		await(t, c, "draining", func(st Status) bool { return st.Draining && st.Leases == 1 })
		if _, err := c.Acquire(); !errors.Is(err, fault.Unavailable) {
			t.Fatalf("a draining child was leased: %v", err)
		}
		lease.Done(true)
		lease.Done(true)
		if err := <-drained; err != nil {
			t.Fatal(err)
		}
		if st := c.Status(); st.State != Stopped || st.PID != 0 {
			t.Fatalf("drained: %+v", st)
		}
		if _, err := os.Stat(lease.At.KeyFile); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("the key's file stays: %v", err)
		}
	})
}

func TestSlowLoadIsNotDeathAndTheDeadlineGrowsWithSize(t *testing.T) {
	const load = 600 // ms, with no line: only the 503 shows life
	eachLeash(t, func(t *testing.T, leash Leash) {
		s := newSupervisor(t, leash, quick)
		small, err := s.Add("small", &fakeDriver{cfg: fakellama.Config{LoadMS: 60_000}, deadline: load / 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		large, err := s.Add("large", &fakeDriver{cfg: fakellama.Config{LoadMS: load}, deadline: 100 * load * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		small.Start()
		large.Start()
		if st := await(t, large, "ready", func(st Status) bool { return st.State != Starting && st.State != Loading && st.State != Probing }); st.State != Ready || st.Starts != 1 {
			t.Errorf("large: %+v", st)
		}
		if st := awaitState(t, small, Parked); !strings.Contains(st.Reason, "of 60ms allowed for its size") {
			t.Errorf("small: %+v", st)
		}
	})
}

func TestHealthyButWedgedIsRestarted(t *testing.T) {
	eachLeash(t, func(t *testing.T, leash Leash) {
		// The first process answers the first probe and one more, then hangs with /health at 200.
		d := &fakeDriver{wait: 200 * time.Millisecond, reshape: func(start int, cfg *fakellama.Config) {
			if start == 1 {
				cfg.HangAfter = 2
			}
		}}
		c := add(t, newSupervisor(t, leash, quick), d)
		c.Start()
		first := await(t, c, "up", func(st Status) bool { return st.State == Ready || st.State == Unhealthy })
		second := await(t, c, "ready again", func(st Status) bool { return st.State == Ready && st.Starts == 2 })
		if !strings.Contains(second.LastFailure, "the one-token probe failed 3 of 3 times: ") {
			t.Errorf("restarted because %q", second.LastFailure)
		}
		if runs(first.PID) || second.PID == first.PID {
			t.Errorf("process %d lives beside %d", first.PID, second.PID)
		}
	})
}

func TestCrashIsRestartedAndAStormParksWithTheReason(t *testing.T) {
	eachLeash(t, func(t *testing.T, leash Leash) {
		d := &fakeDriver{reshape: func(start int, cfg *fakellama.Config) {
			if start == 1 {
				cfg.CrashAfter = 2 // in use: the first completion is the probe's
				return
			}
			cfg.CrashOnStart = &fakellama.Crash{Code: 1, Stderr: "load: error: tensor 'output' not found\nexiting due to model loading error"}
		}}
		policy := quick
		policy.ProbeEvery = patience
		c := add(t, newSupervisor(t, leash, policy), d)
		c.Start()
		awaitState(t, c, Ready)
		lease, err := c.Acquire()
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Alive(t.Context(), lease.At); err == nil {
			t.Error("a request was answered by a server that crashed")
		}
		lease.Done(false)
		st := awaitState(t, c, Parked)
		want := "failed 5 times within 10m0s, the last time: ended with exit status 1: tensor 'output' not found"
		if st.Reason != want || st.Starts != 5 || st.PID != 0 {
			t.Fatalf("%+v, want reason %q after 5 starts", st, want)
		}
		c.Start()
		if st := c.Status(); st.State != Parked {
			t.Fatalf("Start ended a park: %+v", st)
		}
		c.Replace(&fakeDriver{})
		if st := awaitState(t, c, Ready); st.Failures != 0 {
			t.Fatalf("another driver: %+v", st)
		}
	})
}

func TestRetryEndsAPark(t *testing.T) {
	var mended bool
	d := &fakeDriver{reshape: func(_ int, cfg *fakellama.Config) {
		if !mended { // read by the child's owner, written while that is parked
			cfg.CrashOnStart = &fakellama.Crash{Code: 1}
		}
	}}
	c := add(t, newSupervisor(t, SystemLeash, quick), d)
	c.Start()
	awaitState(t, c, Parked)
	mended = true
	c.Retry()
	awaitState(t, c, Ready)
}

func TestForeignServerOnThePortAnsweringOK(t *testing.T) {
	for name, hang := range map[string]bool{"child exits": false, "child hangs": true} {
		t.Run(name, func(t *testing.T) {
			eachLeash(t, func(t *testing.T, leash Leash) {
				d := &fakeDriver{cfg: fakellama.Config{BindHang: hang}, before: func(start int, at Endpoint) {
					if start <= 2 {
						squat(t, at)
					}
				}}
				c := add(t, newSupervisor(t, leash, quick), d)
				c.Start()
				st := await(t, c, "ready", func(st Status) bool { return st.State == Ready || st.State == Backoff })
				if st.State != Ready || st.Starts != 3 || st.Failures != 0 {
					t.Fatalf("%+v, want ready on the third port and no failure counted", st)
				}
			})
		})
	}
}

func TestPortAlwaysTakenIsAFailure(t *testing.T) {
	policy := quick
	policy.PortTries, policy.ParkFails = 2, 1
	c := add(t, newSupervisor(t, SystemLeash, policy), &fakeDriver{before: func(_ int, at Endpoint) { squat(t, at) }})
	c.Start()
	if st := awaitState(t, c, Parked); st.Starts != 3 || !strings.Contains(st.Reason, "3 ports in a row were taken") {
		t.Fatalf("%+v", st)
	}
}

func TestLoadedButNotWhatWasAsked(t *testing.T) {
	c := add(t, newSupervisor(t, SystemLeash, quick), &fakeDriver{cfg: fakellama.Config{Ctx: 512}})
	c.Start()
	st := awaitState(t, c, Parked)
	if st.Starts != 1 || st.Reason != "the server is not what was asked for: 2 slots of 512, asked for 2 of 1024" {
		t.Fatalf("%+v", st)
	}
}

func TestStopIsBoundedWithAnOpenStream(t *testing.T) {
	for name, closes := range map[string]bool{"streams close": true, "streams do not close": false} {
		t.Run(name, func(t *testing.T) {
			eachLeash(t, func(t *testing.T, leash Leash) {
				control := fakellama.NewControl(t)
				d := &fakeDriver{reshape: func(_ int, cfg *fakellama.Config) { cfg.Control = control.Path() }}
				d.cfg.Tokens = []string{"a", "b"}
				d.cfg.GateTokens = true
				policy := quick
				policy.ProbeEvery = time.Hour
				if closes { // then the polite way must do: SIGKILL would come too late to help
					policy.KillAfter = patience
				}
				s := newSupervisor(t, leash, policy)
				c := add(t, s, d)
				control.Step(1) // the probe's
				c.Start()
				awaitState(t, c, Ready)
				lease, err := c.Acquire()
				if err != nil {
					t.Fatal(err)
				}
				resp := openStream(t, lease.At)
				if closes {
					d.keep(resp.Body)
				}
				pid := c.Status().PID
				took := stop(t, c)
				if bound := s.policy.StopBound(); took > bound {
					t.Errorf("stopping took %s, more than %s", took, bound)
				}
				if runs(pid) || d.closing.Load() != 1 {
					t.Errorf("process alive: %v, CloseStreams called %d times", runs(pid), d.closing.Load())
				}
				if _, err := io.ReadAll(resp.Body); err == nil {
					t.Error("the stream ended as if it were whole")
				}
			})
		})
	}
}

func TestIgnoredTermIsKilled(t *testing.T) {
	eachLeash(t, func(t *testing.T, leash Leash) {
		s := newSupervisor(t, leash, quick)
		c := add(t, s, &fakeDriver{cfg: fakellama.Config{IgnoreTerm: true}})
		c.Start()
		pids := group(t, awaitState(t, c, Ready).PID)
		if took := stop(t, c); took > s.policy.StopBound() {
			t.Errorf("stopping took %s, more than %s", took, s.policy.StopBound())
		}
		for _, pid := range pids {
			if runs(pid) {
				t.Errorf("process %d of the group lives on", pid)
			}
		}
	})
}

func TestSpewFillsNeitherDiskNorMemoryNorBlocks(t *testing.T) {
	eachLeash(t, func(t *testing.T, leash Leash) {
		s := newSupervisor(t, leash, quick)
		c := add(t, s, &fakeDriver{cfg: fakellama.Config{Spew: true}})
		c.out.max = 1 << 20
		c.Start()
		awaitState(t, c, Ready)
		newer, older := c.out.path, c.out.path+".1"
		for end := time.Now().Add(patience); ; { // until the files have turned over
			if _, err := os.Stat(older); err == nil {
				break
			}
			if time.Now().After(end) {
				t.Fatal("the log never turned over")
			}
			<-time.After(5 * time.Millisecond)
		}
		if st := c.Status(); st.State != Ready && st.State != Unhealthy || st.Starts != 1 {
			t.Errorf("spewing: %+v", st)
		}
		stop(t, c)
		for _, path := range []string{newer, older} {
			if info, err := os.Stat(path); err != nil || info.Size() > c.out.max {
				t.Errorf("%s: %v, %v, want at most %d bytes", path, info, err, c.out.max)
			}
		}
		lines := c.Tail(1000)
		for _, line := range lines {
			if len(line) > lineMax {
				t.Errorf("a line of %d bytes is kept", len(line))
			}
		}
		if len(lines) > tailLines {
			t.Errorf("%d lines are kept", len(lines))
		}
	})
}

func TestMissingProgram(t *testing.T) {
	eachLeash(t, func(t *testing.T, leash Leash) {
		c := add(t, newSupervisor(t, leash, quick), missing{&fakeDriver{}})
		c.Start()
		if st := awaitState(t, c, Parked); !strings.Contains(st.Reason, "no such file") {
			t.Fatalf("%+v", st)
		}
	})
}

// missing is a driver whose program is not there.
type missing struct{ *fakeDriver }

func (missing) Command(Endpoint) (Command, error) {
	return Command{Path: "/nonexistent/llama-server"}, nil
}

// runs reports whether a process runs, zombies aside: a container's pid 1 may leave them.
func runs(pid int) bool {
	_, err := startOf(pid)
	return err == nil
}

// group is the processes in the group that pid leads.
func group(t *testing.T, pid int) []int {
	t.Helper()
	var members []int
	for _, other := range processes(t) {
		if g, err := syscall.Getpgid(other); err == nil && g == pid {
			members = append(members, other)
		}
	}
	if len(members) == 0 {
		t.Fatalf("process %d leads no group", pid)
	}
	return members
}
