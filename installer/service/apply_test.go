package service

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"interlock.sh/fault"
)

const polkitFile = "/etc/polkit-1/rules.d/50-sh.interlock.fleet.rules"

func unitFile(s Spec, kind string) string { return systemdUnits + "/" + s.Name() + "." + kind }

func TestInstallTwiceThenAnotherGroupThenRemove(t *testing.T) {
	m := newMachine(t)
	first := NewRequest(Install, testHome, client, looker)
	p := m.apply(first)
	want := []string{unitFile(client, "service"), unitFile(looker, "service"), unitFile(looker, "timer"), polkitFile}
	slices.Sort(want)
	if got := m.files(); !slices.Equal(got, want) {
		t.Errorf("the machine has %v", got)
	}
	if want := []string{"systemctl daemon-reload", "systemctl enable --now " + client.Name() + ".service " + looker.Name() + ".timer"}; !slices.Equal(m.said, want) {
		t.Errorf("systemd was told %q", m.said)
	}
	if p.User != "fleet" || len(p.Steps) != 6 || p.Steps[0] != (Step{"root", "write", unitFile(client, "service")}) {
		t.Errorf("the plan was %+v", p)
	}

	m.said = nil
	if p := m.apply(first); p.NeedsRoot() || len(m.said) > 0 {
		t.Errorf("the same again needs %+v and said %q", p.Steps, m.said)
	}
	m.apply(NewRequest(Install, testHome, trainer, Spec{Kind: Updater, App: "app-0123abcd"}))
	if n := len(m.files()); n != len(want)+3 {
		t.Errorf("with a second group the machine has %v", m.files())
	}

	// A text that changed is replaced, and the service is not started over by that.
	m.put(unitFile(client, "service"), marker+"\n[Service]\nUser=fleet\n")
	m.said = nil
	if p := m.apply(first); !p.Changed(client) || p.Changed(looker) || !slices.Equal(m.said, []string{"systemctl daemon-reload"}) {
		t.Errorf("a replaced unit: %+v, %q", p.Steps, m.said)
	}

	m.apply(NewRequest(Remove, testHome, client))
	if _, err := os.Stat(m.at(unitFile(client, "service"))); err == nil || len(m.files()) != len(want)+2 {
		t.Errorf("after the removal of one the machine has %v", m.files())
	}
	m.apply(Request{Schema: 1, Verb: Remove, Home: testHome, All: true})
	if got := m.files(); len(got) > 0 || len(m.active) > 0 {
		t.Errorf("after the removal of all the machine has %v and runs %v", got, m.active)
	}
	if p := m.apply(Request{Schema: 1, Verb: Remove, Home: testHome, All: true}); p.NeedsRoot() {
		t.Errorf("a second removal needs %+v", p.Steps)
	}
}

// A service that was stopped by hand is started by the next install.
func TestInstallStartsWhatIsStopped(t *testing.T) {
	m := newMachine(t)
	q := NewRequest(Install, testHome, client, looker)
	m.apply(q)
	delete(m.active, client.Name()+".service")
	m.said = nil
	m.apply(q)
	if want := []string{"systemctl enable --now " + client.Name() + ".service"}; !slices.Equal(m.said, want) {
		t.Errorf("systemd was told %q", m.said)
	}
}

// Whatever fails on the way leaves the machine as it was.
func TestInstallIsUndone(t *testing.T) {
	for _, failing := range []string{"systemctl daemon-reload", "systemctl enable"} {
		t.Run(failing, func(t *testing.T) {
			m := newMachine(t)
			m.apply(NewRequest(Install, testHome, client, looker))
			old := marker + "\n[Service]\nUser=fleet\n"
			m.put(unitFile(client, "service"), old)
			before := m.files()
			m.failing = failing
			_, err := m.Apply(t.Context(), NewRequest(Install, testHome, client, trainer), nil)
			if err == nil || !strings.Contains(err.Error(), failing) {
				t.Fatalf("it said %v", err)
			}
			if got := m.files(); !slices.Equal(got, before) {
				t.Errorf("it left %v, want %v", got, before)
			}
			if text, _ := os.ReadFile(m.at(unitFile(client, "service"))); string(text) != old {
				t.Errorf("the replaced unit is now\n%s", text)
			}
			if m.active[trainer.Name()+".service"] {
				t.Error("the new service runs")
			}
		})
	}
}

// A service that does not stop keeps every file, so that a second try sees all of them.
func TestRemoveOfWhatDoesNotStop(t *testing.T) {
	m := newMachine(t)
	m.apply(NewRequest(Install, testHome, client, looker))
	before := m.files()
	m.failing = "systemctl disable"
	_, err := m.Apply(t.Context(), Request{Schema: 1, Verb: Remove, Home: testHome, All: true}, nil)
	if err == nil || !strings.Contains(err.Error(), "nothing was removed") {
		t.Errorf("it said %v", err)
	}
	if got := m.files(); !slices.Equal(got, before) {
		t.Errorf("it left %v", got)
	}
}

func TestWhatIsNotOurs(t *testing.T) {
	q := NewRequest(Install, testHome, client)
	t.Run("a unit that somebody wrote", func(t *testing.T) {
		m := newMachine(t)
		m.put(unitFile(client, "service"), "[Service]\nExecStart=/bin/true\n")
		if _, err := m.Apply(t.Context(), q, nil); !errors.Is(err, fault.Conflict) {
			t.Errorf("install: %v", err)
		}
		m.apply(Request{Schema: 1, Verb: Remove, Home: testHome, All: true})
		if len(m.files()) != 1 {
			t.Error("the removal took it")
		}
	})
	t.Run("a unit that is masked", func(t *testing.T) {
		m := newMachine(t)
		m.put("/dev/nothing", "")
		if err := os.MkdirAll(m.at(systemdUnits), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/dev/null", m.at(unitFile(client, "service"))); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Apply(t.Context(), q, nil); !errors.Is(err, fault.Conflict) {
			t.Errorf("install: %v", err)
		}
	})
	t.Run("a service of another user", func(t *testing.T) {
		m := newMachine(t)
		m.apply(q)
		m.uid = 1001
		if _, err := m.Apply(t.Context(), q, nil); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "runs as fleet, and this one would run as user1001") {
			t.Errorf("install: %v", err)
		}
		m.apply(Request{Schema: 1, Verb: Remove, Home: testHome, All: true})
		if len(m.files()) == 0 {
			t.Error("the removal took it")
		}
	})
	t.Run("a home of root's", func(t *testing.T) {
		m := newMachine(t)
		m.uid = 0
		if _, err := m.Apply(t.Context(), q, nil); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "--no-service") {
			t.Errorf("install: %v", err)
		}
	})
	t.Run("a home of somebody who did not ask", func(t *testing.T) {
		m := newMachine(t)
		other := 1001
		if _, err := m.Apply(t.Context(), q, &other); !errors.Is(err, fault.ScopeDenied) || len(m.files()) > 0 {
			t.Errorf("install: %v", err)
		}
	})
}

func TestStates(t *testing.T) {
	m := newMachine(t)
	m.apply(NewRequest(Install, testHome, client))
	got, err := m.States(t.Context(), client.Name(), looker.Name())
	if err != nil {
		t.Fatal(err)
	}
	if want := (State{Name: client.Name(), Installed: true, Enabled: true, Active: true, Words: "active (running)", Pid: 7, Restarts: 2}); got[0] != want {
		t.Errorf("got %+v", got[0])
	}
	if got[1].Installed || got[1].Active {
		t.Errorf("got %+v", got[1])
	}
	if names, err := m.Installed(testHome); err != nil || !slices.Equal(names, []string{client.Name()}) {
		t.Errorf("installed: %v, %v", names, err)
	}
}

// launchd is told the same in its own words. Nothing of it runs here.
func TestLaunchdIsTold(t *testing.T) {
	m := newMachine(t)
	m.manager = launchd{}
	loaded, busy := map[string]bool{}, 2 // the one before still ends
	plain := m.run
	m.run = func(ctx context.Context, argv ...string) (string, error) {
		name := argv[len(argv)-1]
		if argv[1] == "print" {
			if loaded[name] {
				return name + " = {\n\tstate = running\n\tpid = 42\n\truns = 3\n}\n", nil
			}
			return "", errors.New("could not find service")
		}
		if argv[1] == "bootout" {
			if !loaded[name] {
				_, _ = plain(ctx, argv...)
				return "", errors.New("Boot-out failed: 3: No such process")
			}
			delete(loaded, name)
		}
		if argv[1] == "bootstrap" {
			if busy > 0 {
				busy--
				return "", errors.New("bootstrap failed: 37: Operation already in progress")
			}
			loaded["system/"+strings.TrimSuffix(name[strings.LastIndex(name, "/")+1:], ".plist")] = true
		}
		return plain(ctx, argv...)
	}
	q := NewRequest(Install, testHome, client)
	m.apply(q)
	list := launchDaemons + "/" + client.Name() + ".plist"
	if want := []string{"launchctl bootout system/" + client.Name(), "launchctl enable system/" + client.Name(), "launchctl bootstrap system " + list}; !slices.Equal(m.said, want) {
		t.Errorf("launchd was told %q", m.said)
	}
	if p := m.apply(q); p.NeedsRoot() {
		t.Errorf("the same again needs %+v", p.Steps)
	}
	if got, err := m.States(t.Context(), client.Name()); err != nil || got[0].Pid != 42 || got[0].Restarts != 2 || !got[0].Active {
		t.Errorf("state %+v, %v", got, err)
	}
	m.apply(Request{Schema: 1, Verb: Remove, Home: testHome, All: true})
	if len(m.files()) > 0 {
		t.Errorf("it left %v", m.files())
	}
}

// launchd answers before a service has ended, and for one that is not loaded: what counts is whether it still
// knows it. One that stays keeps all files.
func TestLaunchdServicesThatDoNotEnd(t *testing.T) {
	for what, c := range map[string]struct {
		says   string // to bootout
		prints int    // how often it still knows the service; below 0 for ever
		asks   string // what a question fails with then
		words  string // of the refusal; "" is none
	}{
		"one that ends":                       {prints: 0},
		"one that is not loaded":              {says: "Boot-out failed: 3: No such process"},
		"one that takes its time":             {says: "Boot-out failed: 36: Operation now in progress", prints: 5},
		"one that ends after the answer":      {prints: 3},
		"one that launchd refuses to end":     {says: "Boot-out failed: 5: Input/output error", prints: -1, words: "Input/output error"},
		"one that never ends":                 {says: "Boot-out failed: 36: Operation now in progress", prints: -1, words: "has not ended within 3m0s"},
		"one that launchd says nothing about": {asks: "launchctl: not permitted", words: "not permitted"},
	} {
		t.Run(what, func(t *testing.T) {
			m := newMachine(t)
			m.manager = launchd{}
			left, stopping := c.prints, false
			m.run = func(_ context.Context, argv ...string) (string, error) {
				switch argv[1] {
				case "bootout":
					if stopping && c.says != "" {
						return "", errors.New(c.says)
					}
				case "print":
					if !stopping {
						return "", errors.New("Could not find service")
					}
					if left != 0 {
						left--
						return "state = running", nil
					}
					if c.asks != "" {
						return "", errors.New(c.asks)
					}
					return "", errors.New("Could not find service")
				}
				return "", nil
			}
			m.apply(NewRequest(Install, testHome, client, looker))
			before := m.files()
			stopping = true
			_, err := m.Apply(t.Context(), Request{Schema: 1, Verb: Remove, Home: testHome, All: true}, nil)
			stopErr := m.Stop(t.Context(), client.Name())
			if c.words == "" {
				if err != nil || stopErr != nil || len(m.files()) > 0 {
					t.Errorf("%v, %v, it left %v", err, stopErr, m.files())
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), "nothing was removed") || stopErr == nil {
				t.Errorf("it said %v, and of a stop %v", err, stopErr)
			}
			if got := m.files(); !slices.Equal(got, before) {
				t.Errorf("it left %v", got)
			}
		})
	}
}
