package updater

import (
	"slices"
	"strings"
	"testing"
	"time"

	"interlock.sh/fleet/build"
)

func busyFor(d time.Duration) func(*running) {
	return func(s *running) { s.BusyUntil = born.Add(d) }
}

func security(t *build.Target) { t.Security = true }

func yanked(t *build.Target) { t.Yanked = "eats files" }

// waits is a rig on which a release is staged and waits for a busy machine.
func waits(t *testing.T, change ...func(*build.Target)) *rig {
	t.Helper()
	r := newRig(t)
	r.serve("den.client", busyFor(5*time.Hour))
	r.release("1.2.0", "good", change...)
	r.want(r.run(), Waiting, "1.0.0")
	return r
}

// staged says which versions have a folder.
func (r *rig) staged(version string) bool { return slices.Contains(names(r.t, r.app), version) }

// What is withdrawn while it waits is not brought in, by the timer or by hand, and nobody is offered it.
func TestAVersionThatIsWithdrawnWhileItWaits(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]func(*rig) (News, error){
		"the timer": func(r *rig) (News, error) { r.clock.Advance(DefaultMinEvery); return r.updater().Run(r.t.Context()) },
		"--check":   func(r *rig) (News, error) { return r.updater().Check(r.t.Context()) },
		"--now":     func(r *rig) (News, error) { return r.updater().Now(r.t.Context(), NowOptions{}) },
	} {
		for after, newest := range map[string]string{"": "1.0.0", "1.3.0": "1.3.0"} {
			t.Run(name+" "+after, func(t *testing.T) {
				t.Parallel()
				r := waits(t)
				r.release("1.2.0", "good", yanked)
				if after != "" {
					r.release(after, "good")
				}
				n, err := look(r)
				must(t, err)
				if n.Current == "1.2.0" || n.Newest == "1.2.0" || n.Report.Version == "1.2.0" {
					t.Fatalf("%+v", n)
				}
				r.change("den.client", busyFor(0))
				r.want(r.run(), Current, newest)
			})
		}
	}
	t.Run("in the middle of the wait", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.serve("den.client", busyFor(10*time.Minute))
		r.release("1.2.0", "good")
		u, told := r.updater(), false
		u.clock = &ticking{leap: r.clock, each: func() {
			if !told {
				told = true
				r.release("1.2.0", "good", yanked)
			}
		}}
		n, err := u.Run(t.Context())
		must(t, err)
		r.want(n, Current, "1.0.0")
		r.why(n, "1.2.0: it was withdrawn: eats files")
	})
	t.Run("its folder goes", func(t *testing.T) {
		t.Parallel()
		r := waits(t)
		r.release("1.2.0", "good", yanked)
		r.change("den.client", busyFor(0))
		r.run()
		r.release("1.3.0", "good")
		r.want(r.run(), Current, "1.3.0")
		if r.staged("1.2.0") {
			t.Error("it is still there")
		}
	})
	t.Run("no control plane answers", func(t *testing.T) { // it was valid when it was staged
		t.Parallel()
		r := waits(t)
		r.server.Close()
		r.change("den.client", busyFor(0))
		r.want(r.run(), Current, "1.2.0")
	})
	t.Run("the releases are not valid any more", func(t *testing.T) {
		t.Parallel()
		r := waits(t)
		r.change("den.client", busyFor(0))
		r.clock.Advance(10 * 365 * 24 * time.Hour)
		n := r.run()
		r.want(n, Stopped, "1.0.0")
		r.why(n, "expired")
	})
	t.Run("its verdict is open", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.change("den.client", func(s *running) { s.Offline = true })
		r.release("1.2.0", "good")
		r.want(r.run(), Watching, "1.2.0")
		r.release("1.2.0", "good", yanked)
		n := r.run()
		r.want(n, Reverted, "1.0.0")
		r.why(n, "it was withdrawn: eats files")
	})
	t.Run("rolled back to", func(t *testing.T) { // what its owner wants is on the machine, and nobody else's
		t.Parallel()
		r := newRig(t)
		r.release("1.1.0", "good")
		r.want(r.run(), Current, "1.1.0")
		r.release("1.2.0", "good")
		r.want(r.run(), Current, "1.2.0")
		r.release("1.1.0", "good", yanked)
		n, err := r.updater().Rollback(t.Context())
		must(t, err)
		r.want(n, Current, "1.1.0")
	})
}

// A security release has its 30 minutes from when it is seen, whatever is under way.
func TestASecurityReleaseDoesNotWaitForAnotherUpdate(t *testing.T) {
	t.Parallel()
	in := func(r *rig, version string) {
		r.t.Helper()
		start, n := r.clock.Now(), News{}
		for range 10 {
			if n = r.run(); n.Report.State == Current {
				break
			}
		}
		r.want(n, Current, version)
		if took := r.clock.Now().Sub(start); took > DefaultUrgent+10*time.Minute {
			r.t.Errorf("it took %v", took)
		}
	}
	t.Run("another one waits", func(t *testing.T) {
		t.Parallel()
		r := waits(t)
		r.release("1.3.0", "good", security)
		in(r, "1.3.0")
	})
	t.Run("it is not the newest", func(t *testing.T) {
		t.Parallel()
		r := waits(t)
		r.release("1.2.5", "good", security)
		r.release("1.3.0", "good")
		in(r, "1.3.0")
	})
	t.Run("it was jumped over", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.serve("den.client", busyFor(5*time.Hour))
		r.release("1.2.5", "good", security)
		r.release("1.3.0", "good")
		in(r, "1.3.0")
	})
	t.Run("the one that waits becomes urgent", func(t *testing.T) {
		t.Parallel()
		r := waits(t)
		r.clock.Advance(time.Hour)
		r.release("1.2.0", "good", security)
		in(r, "1.2.0")
		if r.clock.Now().Before(born.Add(time.Hour + DefaultUrgent/2)) {
			t.Error("the work in hand got no time")
		}
	})
	t.Run("a verdict is open", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.change("den.client", func(s *running) { s.Offline = true })
		r.release("1.2.0", "good")
		r.want(r.run(), Watching, "1.2.0")
		r.release("1.3.0", "good")
		r.want(r.run(), Watching, "1.2.0") // no reason to hurry
		r.release("1.4.0", "good", security)
		r.want(r.run(), Watching, "1.4.0")
		r.updaterIs("1.0.0")
		r.change("den.client", func(s *running) { s.Offline = false })
		r.want(r.run(), Current, "1.4.0")
		r.updaterIs("1.4.0")
	})
	t.Run("a verdict is open, and the security release is bad", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.change("den.client", func(s *running) { s.Offline = true })
		r.release("1.2.0", "good")
		r.want(r.run(), Watching, "1.2.0")
		r.release("1.4.0", "dead", security)
		r.want(r.run(), Reverted, "1.0.0") // the last that proved itself
	})
	t.Run("it is withdrawn", func(t *testing.T) {
		t.Parallel()
		r := waits(t)
		r.release("1.3.0", "good", security, yanked)
		r.want(r.run(), Waiting, "1.0.0")
	})
}

// By hand, the newest is what is asked for, also when another one waits.
func TestNowTakesTheNewestAndNotTheOneThatWaits(t *testing.T) {
	t.Parallel()
	r := waits(t)
	r.release("1.3.0", "good")
	n, err := r.updater().Check(t.Context())
	must(t, err)
	if n.Newest != "1.3.0" {
		t.Errorf("newest is %s", n.Newest)
	}
	r.want(r.run(), Waiting, "1.0.0") // by itself it lets the first one end
	if r.staged("1.3.0") {
		t.Error("a second version was staged")
	}
	n, err = r.updater().Now(t.Context(), NowOptions{})
	must(t, err)
	r.want(n, Current, "1.3.0")
	if s := r.saw("den.client"); s.Restarts != 1 || !strings.HasPrefix(s.Program, "1.3.0") {
		t.Errorf("%+v", s)
	}
}
