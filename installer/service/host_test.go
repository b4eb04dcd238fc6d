package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeMachine is a host with a folder for a root and a service manager that remembers.
type fakeMachine struct {
	*Host
	t       *testing.T
	said    []string        // commands, in order
	active  map[string]bool // units that run and are enabled
	failing string          // a command that begins so fails
	uid     int
}

func newMachine(t *testing.T) *fakeMachine {
	t.Helper()
	m := &fakeMachine{t: t, active: map[string]bool{}, uid: 1000}
	m.Host = &Host{
		root: t.TempDir(), manager: systemd{facts: systemdFacts{version: 252}, polkit: true},
		folder: func(path string) (string, int, error) { return path, m.uid, nil },
		account: func(uid int) (account, error) {
			who := fleetUser
			if uid != fleetUser.uid {
				who.name = fmt.Sprintf("user%d", uid)
			}
			return who, nil
		},
	}
	m.run = m.command
	return m
}

func (m *fakeMachine) command(_ context.Context, argv ...string) (string, error) {
	line := strings.Join(argv, " ")
	if argv[1] == "show" {
		var b strings.Builder
		for _, unit := range argv[3:] {
			load, state, file := "not-found", "inactive", ""
			if _, err := os.Stat(m.at(systemdUnits + "/" + unit)); err == nil {
				load, file = "loaded", "disabled"
			}
			if m.active[unit] {
				state, file = "active", "enabled"
			}
			fmt.Fprintf(&b, "Id=%s\nLoadState=%s\nActiveState=%s\nSubState=running\nUnitFileState=%s\nMainPID=7\nNRestarts=2\nResult=success\n\n", unit, load, state, file)
		}
		return b.String(), nil
	}
	m.said = append(m.said, line)
	if m.failing != "" && strings.HasPrefix(line, m.failing) {
		return "", errors.New(m.failing + " was refused")
	}
	for _, unit := range argv[2:] {
		switch argv[1] {
		case "enable":
			m.active[unit] = true
		case "disable":
			delete(m.active, unit)
		}
	}
	return "", nil
}

// files are all files below the root.
func (m *fakeMachine) files() []string {
	m.t.Helper()
	var out []string
	err := filepath.WalkDir(m.root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, strings.TrimPrefix(path, m.root))
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func (m *fakeMachine) apply(q Request) Plan {
	m.t.Helper()
	p, err := m.Apply(m.t.Context(), q, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	return p
}

func (m *fakeMachine) put(path, text string) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.at(path)), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(m.at(path), []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}
