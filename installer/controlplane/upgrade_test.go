package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
)

// hurried is a clock on which time passes when somebody waits for it.
type hurried struct{ *clock.Fake }

func (h hurried) After(d time.Duration) <-chan time.Time {
	at := h.Fake.After(d)
	h.Advance(d)
	return at
}

// world is a machine with one control plane: what a program does is said by its version.
type world struct {
	t        *testing.T
	programs Programs
	up       bool
	schema   string // version that migrated the database; "" for the first
	lost     bool   // the database was put back
	log      []string
	fail     string // a step that fails
}

func newWorld(t *testing.T) (*world, Upgrade) {
	t.Helper()
	w := &world{t: t, programs: Programs(t.TempDir()), up: true}
	w.put("1.0.0")
	if err := w.programs.Point(w.name("1.0.0")); err != nil {
		t.Fatal(err)
	}
	step := func(name string, do func() error) func(context.Context) error {
		return func(context.Context) error {
			w.log = append(w.log, name)
			if w.fail == name {
				w.fail = "" // once
				return errors.New(name + " was refused")
			}
			return do()
		}
	}
	return w, Upgrade{
		Programs: w.programs, Clock: hurried{clock.NewFake(time.Unix(0, 0))}, Within: 2 * askEvery, Say: func(string, ...any) {},
		Stop:  step("stop", func() error { w.up = false; return nil }),
		Start: step("start", func() error { w.up = true; w.migrate(); return nil }),
		Copy: func(ctx context.Context) (string, error) {
			return "backup", step("copy", func() error { return nil })(ctx)
		},
		Restore: func(ctx context.Context, _ string) error {
			return step("restore", func() error { w.schema, w.lost = "", true; return nil })(ctx)
		},
		Running:  func(context.Context) (string, error) { return w.running() },
		Restarts: func(context.Context) (int, error) { return w.restarts(), nil },
	}
}

func (w *world) name(version string) string {
	w.t.Helper()
	name, err := w.programs.Name(w.file(version), version)
	if err != nil {
		w.t.Fatal(err)
	}
	return name
}

func (w *world) file(version string) string {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "interlock")
	if err := os.WriteFile(path, []byte("program "+version), 0o700); err != nil {
		w.t.Fatal(err)
	}
	return path
}

func (w *world) put(version string) string {
	w.t.Helper()
	name := w.name(version)
	if err := w.programs.Put(w.file(version), name); err != nil {
		w.t.Fatal(err)
	}
	return name
}

// version is the program behind the link.
func (w *world) version() string {
	text, _ := os.ReadFile(w.programs.Program())
	return strings.TrimPrefix(string(text), "program ")
}

func (w *world) migrate() {
	if v := w.version(); strings.Contains(v, "migrates") {
		w.schema = v
	}
}

// newer is true for a database that the current program cannot read.
func (w *world) newer() bool { return w.schema != "" && w.schema != w.version() }

func (w *world) running() (string, error) {
	v := w.version()
	if !w.up || strings.Contains(v, "broken") || strings.Contains(v, "hangs") || w.newer() {
		return "", errors.New("nobody answers")
	}
	if strings.Contains(v, "lies") {
		return "0.0.1", nil
	}
	return v, nil
}

func (w *world) restarts() int {
	if w.up && (strings.Contains(w.version(), "broken") || w.newer()) {
		return hopeless
	}
	return 0
}

func TestUpgrade(t *testing.T) {
	for _, c := range []struct {
		to, fail string
		serves   string
		lost     bool
		said     string // "" for success
	}{
		{"1.1.0", "", "1.1.0", false, ""},
		{"1.1.0-migrates", "", "1.1.0-migrates", false, ""},
		{"1.1.0-broken", "", "1.0.0", false, "the version before serves again"},
		{"1.1.0-hangs", "", "1.0.0", false, "the version before serves again"},
		{"1.1.0-lies", "", "1.0.0", false, "it is version 0.0.1 that serves"},
		{"1.1.0-migrates-broken", "", "1.0.0", true, "the version before serves again"},
		{"1.1.0-migrates-hangs", "", "1.0.0", true, "the version before serves again"},
		{"1.1.0", "stop", "1.0.0", false, "stop was refused"},
		{"1.1.0", "copy", "1.0.0", false, "copy was refused; nothing was changed"},
		{"1.1.0", "start", "1.0.0", false, "start was refused"},
	} {
		t.Run(c.to+" "+c.fail, func(t *testing.T) {
			w, u := newWorld(t)
			w.fail = c.fail
			err := u.Run(t.Context(), w.put(c.to), c.to)
			if (err == nil) != (c.said == "") || err != nil && !strings.Contains(err.Error(), c.said) {
				t.Errorf("it says %v", err)
			}
			if now, err := w.running(); err != nil || now != c.serves || w.lost != c.lost {
				t.Errorf("serves %q (%v), lost %v; want %q, %v; steps %v", now, err, w.lost, c.serves, c.lost, w.log)
			}
		})
	}
}

// An interrupt in the middle goes back as a failure does.
func TestUpgradeInterrupted(t *testing.T) {
	w, u := newWorld(t)
	ctx, stop := context.WithCancel(t.Context())
	started := u.Start
	u.Start = func(c context.Context) error { stop(); return started(c) }
	if err := u.Run(ctx, w.put("1.1.0-hangs"), "1.1.0-hangs"); err == nil {
		t.Error("it went well")
	}
	if now, err := w.running(); err != nil || now != "1.0.0" {
		t.Errorf("serves %q, %v", now, err)
	}
}

// When even the program of before does not serve, what is where is said.
func TestUpgradeThatCannotGoBack(t *testing.T) {
	w, u := newWorld(t)
	u.Restore = func(context.Context, string) error { return fmt.Errorf("disk full") }
	err := u.Run(t.Context(), w.put("1.1.0-migrates-hangs"), "1.1.0-migrates-hangs")
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("it says %v", err)
	}
}

func TestProgramsAreKept(t *testing.T) {
	w, u := newWorld(t)
	for _, v := range []string{"1.1.0", "1.2.0", "1.3.0"} {
		if err := u.Run(t.Context(), w.put(v), v); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := filepath.Glob(filepath.Join(string(w.programs), "1.*"))
	if len(got) != 2 || !strings.Contains(got[0], "1.2.0") || !strings.Contains(got[1], "1.3.0") {
		t.Errorf("kept are %v", got)
	}
	if st, err := os.Stat(w.programs.Program()); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("the program: %v, %v", st, err)
	}
	for _, version := range []string{"", "../1", "1 2", "-v", "1\n"} {
		if _, err := w.programs.Name(w.file("x"), version); !errors.Is(err, fault.Invalid) {
			t.Errorf("version %q: %v", version, err)
		}
	}
	if err := (Upgrade{Programs: Programs(t.TempDir())}).Run(t.Context(), "x", "x"); !errors.Is(err, fault.NotFound) {
		t.Errorf("nothing installed: %v", err)
	}
}

func TestAProgramThatChangesAfterItWasReadIsNotInstalled(t *testing.T) {
	w, _ := newWorld(t)
	file := w.file("2.0.0")
	name, err := w.programs.Name(file, "2.0.0")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("another program"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := w.programs.Put(file, name); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "was changed") {
		t.Errorf("it was put: %v", err)
	}
	if _, err := os.Lstat(w.programs.Path(name)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something stands there: %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(w.programs.Path(name))); err != nil || len(left) != 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}
