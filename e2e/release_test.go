//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlock.sh/fleet"
)

// passphrases are those of a fresh set of keys, in the order in which they are asked for.
var passphrases = []string{"root-1", "root-2", "root-3", "snapshot-1", "targets-1", "timestamp-1"}

// passphrase is what a release command reads for these keys.
func passphrase(keys ...string) string {
	var b strings.Builder
	for _, k := range keys {
		b.WriteString("the passphrase of " + k + "\n")
	}
	return b.String()
}

// release runs a command of the release machine, whose folders are the plane's.
func (p *plane) release(in string, args ...string) string {
	p.t.Helper()
	args = append([]string{"release"}, args...)
	args = append(args, "--repository", filepath.Join(p.dir, "repository"), "--keys", filepath.Join(p.dir, "release-keys"))
	got := p.cliWith(nil, in, args...)
	if got.code != 0 {
		p.t.Fatalf("interlock %s: exit %d\n%s%s", strings.Join(args, " "), got.code, got.out, got.err)
	}
	return got.out
}

// A version goes from the release machine through the control plane to a new machine: what the pasted line
// installs is the signed program, not the one that the control plane was started with.
func TestPastedLineInstallsTheSignedRelease(t *testing.T) {
	t.Parallel()
	p := newPlane(t).signIn()
	const signed = "0.1.1"
	dist := filepath.Join(p.dir, "dist")
	if err := os.Mkdir(dist, 0o755); err != nil {
		t.Fatal(err)
	}
	next := filepath.Join(dist, "interlock-"+platform)
	if err := os.Link(filepath.Join(assets, "interlock-"+platform), next); err != nil {
		t.Fatal(err)
	}
	if got := p.cli("release", "build", "--dist", dist, "--version", signed); got.code == 0 || !strings.Contains(got.err, "is of version "+version+", not of "+signed) {
		t.Errorf("a program of another version: exit %d, %s", got.code, got.err)
	}
	if err := os.Remove(next); err != nil {
		t.Fatal(err)
	}
	if err := goRun("build", "-ldflags", "-s -w -X interlock.sh/cli.Version="+signed, "-o", next, "./cmd/interlock"); err != nil {
		t.Fatal(err)
	}
	p.release(passphrase(passphrases...), "keys", "init", "--scrypt-work", "14")
	p.ok("release", "build", "--dist", dist, "--version", signed)
	p.release(passphrase("targets-1"), "sign", dist)
	if got := p.cliWith(nil, p.token+"\n", "login"); got.code != 0 {
		t.Fatal(got.err)
	}
	p.release(passphrase("snapshot-1", "timestamp-1"), "publish", "--api", p.base)

	registered, err := p.RegisterGroup(t.Context(), fleet.NewGroupRequest{Name: "signed"})
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, realServer(t))
	if got := h.paste(line(t, registered.Keys, fleet.RoleClient)); got.code != 0 {
		t.Fatalf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	p.wantState(registered.Group.ID, kind(fleet.StateIdle, ""), "idle")
	current, err := filepath.EvalSymlinks(filepath.Join(h.home, ".nightshift", "app", "current"))
	if err != nil || filepath.Base(current) != signed {
		t.Errorf("current is %s, %v; want %s", current, err, signed)
	}
}
