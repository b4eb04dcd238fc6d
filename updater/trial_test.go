package updater

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// updaterIs checks whose program runs the updater.
func (r *rig) updaterIs(want string) {
	r.t.Helper()
	if got := folder(r.app).target(linkUpdater); got != want {
		r.t.Fatalf("the program of %s runs the updater; want %s", got, want)
	}
}

func (r *rig) change(name string, change func(*running)) {
	r.t.Helper()
	s := r.saw(name)
	change(&s)
	r.world.write(s)
}

// started is a service that its owner starts: it runs what current names.
func (r *rig) started(name string) {
	r.t.Helper()
	r.change(name, func(s *running) { s.Down, s.Failing = false, false; r.world.start(s) })
}

func (r *rig) removed(name string) {
	r.t.Helper()
	must(r.t, os.Remove(filepath.Join(r.world.dir, name)))
}

// withoutProof are the ways in which nothing can show that a new version works.
var withoutProof = map[string]func(*rig){
	"no service at all":         func(r *rig) { r.Services = nil },
	"no enrollment":             func(r *rig) { r.removed("den.client") },
	"its owner stopped it":      func(r *rig) { r.change("den.client", func(s *running) { s.Down = true }) },
	"it is started in vain":     func(r *rig) { r.change("den.client", func(s *running) { s.Failing = true }) },
	"two that cannot be judged": func(r *rig) { r.withTwo() },
}

func (r *rig) withTwo() {
	r.change("den.client", func(s *running) { s.Down = true })
	r.serve("den.trainer", func(s *running) { s.Failing = true })
}

// What nobody could judge takes over, and never gets the updater: a bad version cannot keep the next one out.
func TestAVersionWithoutProofDoesNotRunTheUpdater(t *testing.T) {
	t.Parallel()
	for name, quiet := range withoutProof {
		for _, behaviour := range []string{"good", "dead", "dead, and no updater"} {
			t.Run(name+"/"+behaviour, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				quiet(r)
				r.release("1.1.0", behaviour)
				n := r.run()
				r.want(n, Current, "1.1.0")
				r.why(n, "no service ran that could show that it works", "1.0.0 goes on as the updater")
				r.updaterIs("1.0.0")
				r.want(r.run(), Current, "1.1.0")
				r.updaterIs("1.0.0")
				if n.Previous != "1.0.0" {
					t.Errorf("previous is %q", n.Previous)
				}
				r.release("1.2.0", "good")
				r.want(r.run(), Current, "1.2.0")
				r.updaterIs("1.0.0")
			})
		}
	}
	t.Run("the last service is removed while it is watched", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.release("1.1.0", "good")
		u := r.updater()
		u.reached = func(step string) {
			if step == "watching" {
				r.removed("den.client")
			}
		}
		n, err := u.Run(t.Context())
		must(t, err)
		r.want(n, Current, "1.1.0")
		r.updaterIs("1.0.0")
	})
}

// A service that is started later is judged then, and the last proven version comes back when it is bad.
func TestAVersionWithoutProofIsJudgedWhenAServiceComes(t *testing.T) {
	t.Parallel()
	stopped := func(s *running) { s.Down = true }
	t.Run("good", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.change("den.client", stopped)
		r.release("1.1.0", "good")
		r.want(r.run(), Current, "1.1.0")
		r.started("den.client")
		r.want(r.run(), Current, "1.1.0")
		r.updaterIs("1.1.0")
		if s := r.saw("den.client"); s.Restarts != 0 {
			t.Error("it was restarted by the updater")
		}
	})
	for _, behaviour := range []string{"dead", "hung", "silent", "flaky", "impostor"} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.change("den.client", stopped)
			r.release("1.1.0", "good")
			r.want(r.run(), Current, "1.1.0")
			r.release("1.2.0", behaviour) // two versions without a proof, one upon the other
			r.want(r.run(), Current, "1.2.0")
			r.started("den.client")
			r.want(r.run(), Reverted, "1.0.0")
			r.updaterIs("1.0.0")
			if s := r.saw("den.client"); s.Program != "1.0.0 good" {
				t.Errorf("the service runs %q", s.Program)
			}
			if n := r.run(); n.Quarantined["1.2.0"] == "" || n.Quarantined["1.1.0"] != "" {
				t.Errorf("kept out are %v", n.Quarantined)
			}
		})
	}
	t.Run("an enrollment that is new", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.removed("den.client")
		r.release("1.1.0", "dead")
		r.want(r.run(), Current, "1.1.0")
		r.serve("new.client", func(*running) {})
		r.want(r.run(), Reverted, "1.0.0")
	})
	t.Run("what was started in vain before says nothing", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.change("den.client", func(s *running) { s.Failing = true })
		r.release("1.1.0", "good")
		for range 3 {
			r.want(r.run(), Current, "1.1.0")
		}
		r.started("den.client") // until what was wrong is put right
		r.want(r.run(), Current, "1.1.0")
		r.updaterIs("1.1.0")
	})
	t.Run("the state is lost", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.change("den.client", stopped)
		r.release("1.1.0", "dead")
		r.want(r.run(), Current, "1.1.0")
		must(t, os.WriteFile(folder(r.app).stateFile(), []byte("{"), 0o600))
		r.want(r.run(), Current, "1.1.0")
		r.updaterIs("1.0.0")
		r.started("den.client")
		r.want(r.run(), Reverted, "1.0.0")
	})
	t.Run("installed anew by hand", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.change("den.client", stopped)
		r.release("1.1.0", "dead")
		r.want(r.run(), Current, "1.1.0")
		r.install("1.5.0", "1.5.0 good")
		must(t, folder(r.app).point(linkCurrent, "1.5.0"))
		r.started("den.client")
		r.want(r.run(), Current, "1.5.0")
	})
	t.Run("rolled back", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.change("den.client", stopped)
		r.release("1.1.0", "dead")
		r.want(r.run(), Current, "1.1.0")
		n, err := r.updater().Rollback(t.Context())
		must(t, err)
		r.want(n, Current, "1.0.0")
		r.updaterIs("1.0.0")
	})
}

// A service that is being started when a release comes is waited for: most often it is up in a moment, and then
// it is judged.
func TestAServiceThatIsBeingStartedIsWaitedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.change("den.client", func(s *running) { s.Failing = true })
	r.release("1.1.0", "dead")
	u := r.updater()
	waited := 0
	u.Progress = nil
	clk := &ticking{leap: r.clock, each: func() {
		if waited++; waited == 3 {
			r.started("den.client")
		}
	}}
	u.clock = clk
	n, err := u.Run(t.Context())
	must(t, err)
	r.want(n, Reverted, "1.0.0")
	r.updaterIs("1.0.0")
}

// ticking tells of each wait.
type ticking struct {
	*leap
	each func()
}

func (c *ticking) After(d time.Duration) <-chan time.Time {
	c.each()
	return c.leap.After(d)
}

// A version whose services are well and whose own updater is broken stays, and the old one brings the next.
func TestAVersionWhoseUpdaterIsBrokenDoesNotRunIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.release("1.1.0", "good, no updater")
	n := r.run()
	r.want(n, Current, "1.1.0")
	r.why(n, "its own updater does not work yet: exit status 1")
	r.updaterIs("1.0.0")
	n = r.run()
	r.want(n, Current, "1.1.0")
	r.why(n, "its own updater does not work yet")
	r.updaterIs("1.0.0")
	r.release("1.2.0", "good")
	r.want(r.run(), Current, "1.2.0")
	r.updaterIs("1.2.0")

	t.Run("tried again", func(t *testing.T) {
		r := newRig(t)
		r.release("1.1.0", "good, no updater")
		r.want(r.run(), Current, "1.1.0")
		r.Prove = nil // what was wrong was not the program
		r.want(r.run(), Current, "1.1.0")
		r.updaterIs("1.1.0")
		if st, err := folder(r.app).peek(); err != nil || st.Trial != nil {
			t.Errorf("%+v, %v", st.Trial, err)
		}
	})
	t.Run("a bad one upon it goes back to the last proven", func(t *testing.T) {
		r := newRig(t)
		r.release("1.1.0", "good, no updater")
		r.want(r.run(), Current, "1.1.0")
		r.release("1.2.0", "dead")
		r.want(r.run(), Reverted, "1.1.0") // whose services were well
		r.updaterIs("1.0.0")
	})
	t.Run("its updater's folder is damaged", func(t *testing.T) {
		r := newRig(t)
		r.release("1.1.0", "good")
		r.want(r.run(), Current, "1.1.0")
		r.release("1.2.0", "good, no updater")
		r.want(r.run(), Current, "1.2.0")
		must(t, os.Remove(filepath.Join(r.app, "updater")))
		must(t, os.Symlink("0.9.0", filepath.Join(r.app, "updater")))
		r.want(r.run(), Current, "1.2.0")
		r.updaterIs("1.1.0")
	})
}

// SIGKILL at every step of an update that nothing can judge: it ends as without one, and the last proven version
// comes back when a service shows that it is bad.
func TestSIGKILLWithoutProof(t *testing.T) {
	t.Parallel()
	rest := func(t *testing.T) *rig {
		r := newRig(t)
		r.change("den.client", func(s *running) { s.Down = true })
		r.release("1.1.0", "dead")
		return r
	}
	var steps []string
	u := rest(t).updater()
	u.reached = func(s string) { steps = append(steps, s) }
	_, err := u.Run(t.Context())
	must(t, err)
	for i, step := range steps {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			r := rest(t)
			if out, err := r.child(r.server.URL, i+1).CombinedOutput(); err == nil {
				t.Fatalf("the child was not killed: %s", out)
			}
			r.sound()
			r.want(r.run(), Current, "1.1.0")
			r.updaterIs("1.0.0")
			r.started("den.client")
			if out, err := r.child(r.server.URL, 1).CombinedOutput(); err == nil {
				t.Fatalf("the child was not killed: %s", out)
			}
			r.want(r.run(), Reverted, "1.0.0")
			r.updaterIs("1.0.0")
		})
	}
}
