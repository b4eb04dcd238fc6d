package updater

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
)

func TestAGoodReleaseTakesOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want(r.run(), Current, "1.0.0")
	r.release("1.1.0", "good")
	u := r.updater()
	seen := states(u)
	r.clock.Advance(DefaultMinEvery)
	n, err := u.Run(t.Context())
	must(t, err)
	r.want(n, Current, "1.1.0")
	equal(t, "states", *seen, []string{Available, Staged, Watching, Current})
	if n.Previous != "1.0.0" || folder(r.app).target(linkUpdater) != "1.1.0" {
		t.Fatalf("previous %s, updater %s", n.Previous, folder(r.app).target(linkUpdater))
	}
	if s := r.saw("den.client"); s.Restarts != 1 || s.Program != "1.1.0 good" {
		t.Fatalf("the service is %+v", s)
	}
	r.want(r.run(), Current, "1.1.0") // and nothing more to do
	if s := r.saw("den.client"); s.Restarts != 1 {
		t.Fatal("a pass without news restarted the service")
	}
	r.release("1.2.0", "good")
	r.want(r.run(), Current, "1.2.0")
	equal(t, "the folder", names(t, r.app), []string{"1.1.0", "1.2.0", "current", "previous", "trust", "updater"})
}

// Each kind of broken release is reverted once, told, and never taken again; the next good one is.
func TestABrokenReleaseIsRevertedOnce(t *testing.T) {
	t.Parallel()
	for behaviour, why := range map[string]string{
		"dead":     "does not answer: connection refused",
		"hung":     "does not answer: context deadline exceeded",
		"silent":   "sent no heartbeat, while its control plane answers this machine",
		"orphans":  "does not serve tiny any more (the model could not be adopted)",
		"flaky":    "does not answer",
		"impostor": "runs version 0.0.1",
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.serve("den.trainer", func(s *running) { s.Children = nil })
			r.release("1.1.0", behaviour)
			n := r.run()
			r.want(n, Reverted, "1.0.0")
			r.why(n, why)
			for _, name := range []string{"den.client", "den.trainer"} {
				if s := r.saw(name); s.Program != "1.0.0 good" {
					t.Errorf("%s runs %q after the revert", name, s.Program)
				}
			}
			if folder(r.app).target(linkUpdater) != "1.0.0" {
				t.Error("the updater link moved to a version that failed")
			}
			restarts := r.saw("den.client").Restarts
			again := r.run()
			r.want(again, Reverted, "1.0.0")
			if again.Report.At != n.Report.At || r.saw("den.client").Restarts != restarts {
				t.Error("the version was tried again")
			}
			r.release("1.1.1", "good")
			r.want(r.run(), Current, "1.1.1")
		})
	}
}

// One service that fails reverts the machine, also when all others are well.
func TestOneFailingServiceRevertsTheMachine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.serve("den.deaf", func(s *running) { s.Deaf = true })
	r.release("1.1.0", "good")
	n := r.run()
	r.want(n, Reverted, "1.0.0")
	r.why(n, "den.deaf runs version 1.0.0")
	if s := r.saw("den.client"); s.Program != "1.0.0 good" {
		t.Errorf("the other service stayed at %q", s.Program)
	}
}

// What was down before is not judged; a machine where nothing runs takes a release at once.
func TestWhatWasDownIsNotJudged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.serve("den.off", func(s *running) { s.Down = true })
	r.release("1.1.0", "good")
	r.want(r.run(), Current, "1.1.0")
	must(t, os.Remove(filepath.Join(r.world.dir, "den.client")))
	r.release("1.2.0", "good")
	r.want(r.run(), Current, "1.2.0")
}

// The control plane cannot be reached from this machine at all: no verdict is spoken for a day, then the
// version that is well but for that is kept. Once the control plane answers, silence counts.
func TestTheVerdictStaysOpenWhileTheControlPlaneIsAway(t *testing.T) {
	t.Parallel()
	t.Run("comes back", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.serve("den.client", func(s *running) { s.Offline = true })
		r.release("1.1.0", "good")
		n := r.run()
		r.want(n, Watching, "1.1.0")
		r.why(n, "the verdict is open", "no route to host")
		if folder(r.app).target(linkUpdater) != "1.0.0" {
			t.Error("the updater link moved before the verdict")
		}
		s := r.saw("den.client")
		s.Offline = false
		r.world.write(s)
		r.want(r.run(), Current, "1.1.0")
	})
	t.Run("comes back and the service stays silent", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.serve("den.client", func(s *running) { s.Offline = true })
		r.release("1.1.0", "silent")
		r.want(r.run(), Watching, "1.1.0")
		s := r.saw("den.client")
		s.Offline = false
		r.world.write(s)
		r.want(r.run(), Reverted, "1.0.0")
	})
	t.Run("never", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.serve("den.client", func(s *running) { s.Offline = true })
		r.release("1.1.0", "good")
		n := r.run()
		r.clock.Advance(7 * 24 * time.Hour) // the machine was off: it did not wait
		for range 24 {
			r.want(n, Watching, "1.1.0")
			r.clock.Advance(time.Hour)
			n = r.run()
		}
		r.want(n, Current, "1.1.0")
		r.why(n, "kept without a heartbeat")
	})
	t.Run("dead all the same", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.serve("den.client", func(s *running) { s.Offline = true })
		r.release("1.1.0", "dead")
		r.want(r.run(), Reverted, "1.0.0")
	})
}

func TestABusyMachineWaits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		security bool
		limit    time.Duration
	}{{"a release", false, DefaultBusyLimit}, {"a security release", true, DefaultUrgent}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.serve("den.client", func(s *running) { s.BusyUntil = born.Add(48 * time.Hour) })
			r.release("1.1.0", "good", func(b *build.Target) { b.Security = c.security })
			u := r.updater()
			seen := states(u)
			var n News
			for range 100 {
				r.clock.Advance(time.Minute)
				var err error
				if n, err = u.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				if n.Report.State == Current {
					break
				}
				r.want(n, Waiting, "1.0.0")
				r.why(n, "den.client has work in hand")
			}
			r.want(n, Current, "1.1.0")
			equal(t, "states", *seen, []string{Available, Staged, Waiting, Watching, Current})
			if took := r.clock.Now().Sub(born); took > c.limit || took < c.limit/2 {
				t.Errorf("it took over after %v; the limit is %v", took, c.limit)
			}
		})
	}
	t.Run("until it is idle", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.serve("den.client", func(s *running) { s.BusyUntil = born.Add(10 * time.Minute) })
		r.release("1.1.0", "good")
		r.want(r.run(), Current, "1.1.0")
	})
	t.Run("by hand it does not", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.serve("den.client", func(s *running) { s.BusyUntil = born.Add(48 * time.Hour) })
		r.release("1.1.0", "good")
		n, err := r.updater().Now(t.Context(), NowOptions{})
		must(t, err)
		r.want(n, Current, "1.1.0")
	})
}

func TestByHand(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.release("1.1.0", "dead")
	r.want(r.run(), Reverted, "1.0.0")
	if _, err := r.updater().Now(t.Context(), NowOptions{Version: "1.1.0"}); !errors.Is(err, fault.Conflict) || contains(err, "does not answer", "--force") != nil {
		t.Fatalf("a version that failed was taken: %v", err)
	}
	n, err := r.updater().Now(t.Context(), NowOptions{Version: "1.1.0", Force: true})
	must(t, err)
	r.want(n, Reverted, "1.0.0")
	if _, err := r.updater().Now(t.Context(), NowOptions{Version: "9.0.0"}); !errors.Is(err, fault.NotFound) {
		t.Fatalf("a version that was never released: %v", err)
	}
	r.release("1.2.0", "good")
	n, err = r.updater().Check(t.Context())
	must(t, err)
	r.want(n, Available, "1.0.0")
	if n.Newest != "1.2.0" {
		t.Fatalf("newest is %q", n.Newest)
	}
	r.want(r.run(), Current, "1.2.0")
	n, err = r.updater().Rollback(t.Context())
	must(t, err)
	r.want(n, Current, "1.0.0")
	if n.Previous != "" {
		t.Errorf("previous is %s after the rollback", n.Previous)
	}
	r.want(r.run(), Current, "1.0.0") // the timer does not undo it
	if _, err := r.updater().Rollback(t.Context()); !errors.Is(err, fault.NotFound) {
		t.Fatalf("a second rollback: %v", err)
	}
	r.release("1.3.0", "good")
	r.release("1.4.0", "good")
	r.want(r.run(), Current, "1.4.0")
	n, err = r.updater().Now(t.Context(), NowOptions{Version: "1.3.0"})
	must(t, err)
	r.want(n, Current, "1.3.0")
	r.want(r.run(), Current, "1.3.0")
}

func TestSignedBytesComeBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.release("1.1.0", "good")
	r.run()
	v, err := VerifyInstalled(r.app, build.Interlock, "linux", "amd64")
	if err != nil || !v.Signed || !v.Pinned || v.Version != "1.1.0" {
		t.Fatalf("%+v, %v", v, err)
	}
	must(t, os.WriteFile(filepath.Join(r.app, "1.1.0", build.Interlock), []byte("1.1.0 evil"), 0o755))
	if _, err = VerifyInstalled(r.app, build.Interlock, "linux", "amd64"); !errors.Is(err, fault.HashMismatch) || contains(err, "--now --version 1.1.0") != nil {
		t.Fatalf("a changed program: %v", err)
	}
	n, err := r.updater().Now(t.Context(), NowOptions{Version: "1.1.0"})
	must(t, err)
	r.want(n, Current, "1.1.0")
	if v, err = VerifyInstalled(r.app, build.Interlock, "linux", "amd64"); err != nil || !v.Signed {
		t.Fatalf("%+v, %v", v, err)
	}
}

func TestVerifyBeforeAnyMetadata(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	v, err := VerifyInstalled(r.app, build.Interlock, "linux", "amd64")
	if err != nil || v.Signed || !strings.Contains(v.Detail, "installed by the install line") {
		t.Fatalf("%+v, %v", v, err)
	}
	if _, err := VerifyInstalled(t.TempDir(), build.Interlock, "linux", "amd64"); !errors.Is(err, fault.NotFound) {
		t.Fatalf("an empty folder: %v", err)
	}
}

// A program that does not start is kept out before anything is swapped.
func TestAProgramThatDoesNotStartNeverTakesOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Try = func(_ context.Context, program string) error {
		b, err := os.ReadFile(program)
		if strings.HasSuffix(string(b), "exit1") {
			return exited(1)
		}
		return err
	}
	r.release("1.1.0", "exit1")
	n := r.run()
	r.want(n, Reverted, "1.0.0")
	r.why(n, "exit status 1", "never took over")
	if r.saw("den.client").Restarts != 0 {
		t.Error("a service was restarted")
	}
	r.release("1.1.1", "good")
	r.want(r.run(), Current, "1.1.1")
}

// exited is how a program that ended with a code is told of.
func exited(code int) error {
	return exec.Command("/bin/sh", "-c", fmt.Sprintf("exit %d", code)).Run()
}

// What keeps a machine from trying a version says nothing against it.
func TestAVersionThatCouldNotBeTriedIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{
		"no process could be made": &fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.EAGAIN},
		"no memory":                &fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.ENOMEM},
		"busy":                     &fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.ETXTBSY},
		"too slow":                 errors.New("it did not answer in time"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			short := true
			r.Try = func(context.Context, string) error {
				if short {
					return cause
				}
				return nil
			}
			r.release("1.1.0", "good")
			n := r.run()
			r.want(n, Stopped, "1.0.0")
			r.why(n, "1.1.0 waits", cause.Error())
			if len(n.Quarantined) > 0 {
				t.Errorf("quarantined: %v", n.Quarantined)
			}
			short = false
			r.want(r.run(), Current, "1.1.0")
		})
	}
	t.Run("no program of this machine", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.Try = func(context.Context, string) error {
			return &fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.ENOEXEC}
		}
		r.release("1.1.0", "good")
		r.want(r.run(), Reverted, "1.0.0")
	})
}

// The install line was run in the middle of an update: what it put there stays, and nothing is quarantined.
func TestWhatIsInstalledByHandStays(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(*running){
		"while it waits":   func(s *running) { s.BusyUntil = born.Add(48 * time.Hour) },
		"while it watches": func(s *running) { s.Offline = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.serve("den.client", before)
			r.release("1.1.0", "good")
			r.run()
			r.install("1.5.0", "1.5.0 good")
			must(t, folder(r.app).point(linkCurrent, "1.5.0"))
			n := r.run()
			r.want(n, Current, "1.5.0")
			r.why(n, "current was moved to 1.5.0 by hand")
			if len(n.Quarantined) != 0 {
				t.Errorf("quarantined: %v", n.Quarantined)
			}
			r.want(r.run(), Current, "1.5.0")
		})
	}
}

func TestOnlyOneUpdaterAtATime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	u := r.updater()
	var inner error
	u.Progress = nil
	u.reached = func(step string) {
		if step == "watching" {
			_, inner = r.updater().Run(t.Context())
		}
	}
	r.release("1.1.0", "good")
	n, err := u.Run(t.Context())
	must(t, err)
	r.want(n, Current, "1.1.0")
	if !errors.Is(inner, fault.Conflict) {
		t.Fatalf("a second updater: %v", inner)
	}
}

func TestAFullDiskIsSaidBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.FreeDisk = func(string) (int64, error) { return 1 << 20, nil }
	r.release("1.1.0", "good")
	r.repo.Requests()
	n := r.run()
	r.want(n, Stopped, "1.0.0")
	r.why(n, "needs 64 MB free, 1 MB are")
	if slices.ContainsFunc(r.repo.Requests(), func(p string) bool { return strings.HasPrefix(p, "targets/") }) {
		t.Error("the download began")
	}
}
