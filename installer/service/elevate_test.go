package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"interlock.sh/fault"
	"interlock.sh/internal/testkit"
)

// script is a program of a test.
func script(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	testkit.WriteProgram(t, path, []byte("#!/bin/sh\n"+text))
	return path
}

func TestRootIsAskedTheRightWay(t *testing.T) {
	both, sudoOnly, none := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{both, sudoOnly} {
		script(t, dir, "sudo", "")
	}
	script(t, both, "pkexec", "")
	for _, c := range []struct {
		name, path string
		desk       Desk
		want       string
	}{
		{"root", none, Desk{Root: true}, ""},
		{"a terminal", both, Desk{Terminal: true, Display: true}, "sudo -p"},
		{"a desktop", both, Desk{Display: true}, "pkexec"},
		{"neither", both, Desk{}, "sudo -n"},
		{"a desktop without pkexec", sudoOnly, Desk{Display: true}, "sudo -n"},
	} {
		t.Setenv("PATH", c.path)
		e, err := c.desk.Elevate()
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(e.argv, " ")
		if c.want == "" && !e.Direct() || runtime.GOOS == "linux" && !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	t.Setenv("PATH", none)
	if _, err := (Desk{Terminal: true}).Elevate(); !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "--no-service") {
		t.Errorf("neither sudo nor pkexec: %v", err)
	}
}

func TestConsentAndItsRefusal(t *testing.T) {
	dir := t.TempDir()
	got := filepath.Join(dir, "got")
	sudo := Elevation{Name: "sudo", argv: []string{script(t, dir, "sudo", `exec "$@"`)}}
	q := NewRequest(Install, testHome, client)

	works := script(t, dir, "works", `echo "$*" >`+got+`; cat >>`+got+`; echo '{"done":true}'`)
	if err := sudo.Ask(t.Context(), works, []string{"agent", "service", "apply"}, q, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(got)
	if err != nil {
		t.Fatal(err)
	}
	args, body, _ := strings.Cut(string(text), "\n")
	var back Request
	if err := json.Unmarshal([]byte(body), &back); err != nil || args != "agent service apply" || back.Home != testHome {
		t.Errorf("root was given %q", text)
	}

	refused := Elevation{Name: "sudo", argv: []string{script(t, dir, "refuses", "echo 'sudo: 3 incorrect password attempts' >&2; exit 1")}}
	var talk bytes.Buffer
	err = refused.Ask(t.Context(), works, nil, q, &talk)
	if !errors.Is(err, fault.ScopeDenied) || !strings.Contains(err.Error(), "nothing was changed") || !strings.Contains(talk.String(), "incorrect password") {
		t.Errorf("refused: %v; %s", err, &talk)
	}

	fails := script(t, dir, "fails", `cat >/dev/null; echo '{"done":false,"error":{"code":"CONFLICT","message":"no"}}'; exit 1`)
	if err := sudo.Ask(t.Context(), fails, nil, q, &talk); !errors.Is(err, fault.Conflict) {
		t.Errorf("failed as root: %v", err)
	}
}

func TestCaller(t *testing.T) {
	if got, err := Caller([]string{"HOME=/root"}); got != nil || err != nil {
		t.Errorf("nobody: %v, %v", got, err)
	}
	for _, name := range []string{"SUDO_UID", "PKEXEC_UID"} {
		if got, err := Caller([]string{name + "=1000"}); err != nil || got == nil || *got != 1000 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if _, err := Caller([]string{name + "=root"}); err == nil {
			t.Errorf("%s=root was taken", name)
		}
	}
}

func TestNoServiceManager(t *testing.T) {
	err := noManager(`"openrc-init"`)
	for _, word := range []string{"openrc-init", "systemd or launchd", "--no-service"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in: %v", word, err)
		}
	}
	if initName() == "not known" {
		t.Error("process 1 of this machine has no name")
	}
}
