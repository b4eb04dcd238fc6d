//go:build linux

package awake

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"interlock.sh/internal/clock"
	"interlock.sh/internal/testkit"
	"interlock.sh/internal/testkit/logind"
)

const busVariable = "DBUS_SYSTEM_BUS_ADDRESS"

// onBus gives the test a bus with a login manager.
func onBus(t *testing.T) (*logind.Bus, *logind.Logind) {
	t.Helper()
	bus := logind.StartBus(t)
	t.Setenv(busVariable, bus.Address)
	t.Setenv("PATH", t.TempDir()) // no systemd-inhibit
	return bus, bus.Serve()
}

// program puts a stand-in for a program of the system on the path. sh and cat are the system's.
func program(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	testkit.WriteProgram(t, filepath.Join(dir, name), []byte("#!/bin/sh\n"+script))
	t.Setenv("PATH", dir)
}

func TestLogindHoldsTheLockWhileATaskRuns(t *testing.T) {
	_, manager := onBus(t)
	k, stop := run(t, Options{})
	done := k.Hold()
	await(t, "the lock", func() bool { return k.State().Held })
	want := logind.Lock{What: "sleep", Who: "interlock", Why: "a task runs", Mode: "block"}
	if got := manager.Locks(); len(got) != 1 || got[0] != want || k.State().Refused != "" {
		t.Errorf("locks %+v, %+v", got, k.State())
	}
	done()
	await(t, "its end", func() bool { return len(manager.Locks()) == 0 })
	k.Hold()
	await(t, "the lock again", func() bool { return len(manager.Locks()) == 1 })
	stop()
	await(t, "the end with the keeper's", func() bool { return len(manager.Locks()) == 0 })
}

// A service has no session: polkit denies it the block of sleep, and allows the one of idleness.
func TestWhereSleepMayNotBeBlockedIdlenessIs(t *testing.T) {
	_, manager := onBus(t)
	manager.Refuse("sleep")
	k, _ := run(t, Options{})
	k.Hold()
	await(t, "the lock", func() bool { return k.State().Held })
	if got := manager.Locks(); len(got) != 1 || got[0].What != "idle" {
		t.Errorf("locks %+v", got)
	}
	if words := k.State().Refused; !strings.Contains(words, "logind refuses to block sleep") || !strings.Contains(words, "Permission denied") || !strings.Contains(words, "by itself only") {
		t.Errorf("said: %q", words)
	}
}

// TestWhyThereIsNoLock is every way in which the system does not give one, and what is said of it.
func TestWhyThereIsNoLock(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup func(t *testing.T)
		words []string
	}{
		{"access denied", func(t *testing.T) {
			_, m := onBus(t)
			m.Refuse("sleep", "idle")
		}, []string{"logind refuses to block sleep", "Permission denied"}},
		{"no bus", func(t *testing.T) {
			t.Setenv(busVariable, "unix:path="+filepath.Join(t.TempDir(), "none"))
			t.Setenv("PATH", t.TempDir())
		}, []string{"reach the system's message bus", "no such file", "start systemd-inhibit"}},
		{"a bus without logind", func(t *testing.T) {
			t.Setenv(busVariable, logind.StartBus(t).Address)
			t.Setenv("PATH", t.TempDir())
		}, []string{"ask logind to block sleep", "org.freedesktop.login1"}},
		{"the program is refused too", func(t *testing.T) {
			t.Setenv(busVariable, "unix:path="+filepath.Join(t.TempDir(), "none"))
			program(t, "systemd-inhibit", "echo 'Failed to inhibit: Access denied' >&2; exit 1")
		}, []string{"reach the system's message bus", "systemd-inhibit: Failed to inhibit: Access denied"}},
		{"the program ends without a word", func(t *testing.T) {
			t.Setenv(busVariable, "unix:path="+filepath.Join(t.TempDir(), "none"))
			program(t, "systemd-inhibit", "exit 3")
		}, []string{"systemd-inhibit: exit status 3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.setup(t)
			k, _ := run(t, Options{})
			k.Hold()
			await(t, "the refusal", func() bool { return k.State().Refused != "" })
			for _, w := range c.words {
				if st := k.State(); st.Held || !strings.Contains(st.Refused, w) {
					t.Errorf("%+v does not say %q", st, w)
				}
			}
		})
	}
}

func TestALogindThatHangsIsGivenUp(t *testing.T) {
	_, manager := onBus(t)
	answer := manager.Hang()
	defer answer()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := takeSystem(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it said: %v", err)
	}
	answer()
	await(t, "no lock of what was given up", func() bool { return len(manager.Locks()) == 0 })
}

// The end of the keeper and the answer that brings the lock may cross at every moment.
func TestALockThatNobodyWantsAnyMoreIsGivenBack(t *testing.T) {
	_, manager := onBus(t)
	for n := range 50 {
		answer := manager.Hang()
		k, stop := run(t, Options{})
		k.Hold()
		await(t, "the question", func() bool { asked, _ := manager.Asked(); return asked == n+1 })
		go answer()
		stop()
		await(t, "the lock that crossed the end", func() bool { _, given := manager.Asked(); return given == n+1 })
		await(t, "no lock after the keeper", func() bool { return len(manager.Locks()) == 0 })
	}
}

func TestABusThatDiesWhileTheLockIsHeld(t *testing.T) {
	bus, manager := onBus(t)
	fake := clock.NewFake(time.Now())
	k, _ := run(t, Options{Clock: fake})
	k.Hold()
	await(t, "the lock", func() bool { return k.State().Held })
	bus.Stop()
	await(t, "the loss is seen", func() bool { st := k.State(); return !st.Held && st.Refused != "" })
	await(t, "nothing left of the old lock", func() bool { return len(manager.Locks()) == 0 })
	bus.Start()
	bus.Rejoin(manager)
	await(t, "a lock on the new bus", func() bool {
		fake.Advance(time.Second)
		return k.State() == State{Held: true} && len(manager.Locks()) == 1
	})
}

func TestAProgramHoldsTheLockWhereThereIsNoBus(t *testing.T) {
	t.Setenv(busVariable, "unix:path="+filepath.Join(t.TempDir(), "none"))
	mark := filepath.Join(t.TempDir(), "holds")
	program(t, "systemd-inhibit", `while [ "${1#--}" != "$1" ]; do shift; done
echo yes >'`+mark+`'; "$@"; rm '`+mark+`'`)
	k, _ := run(t, Options{})
	done := k.Hold()
	await(t, "the lock", func() bool { return k.State().Held })
	if _, err := os.Stat(mark); err != nil {
		t.Error("it does not run:", err)
	}
	done()
	await(t, "its end", func() bool { _, err := os.Stat(mark); return err != nil && !k.State().Held })
}
