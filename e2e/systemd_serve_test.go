//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A control plane that is installed serves as a user of its own, with the options it was given, comes back
// with the machine, is backed up, and leaves its data when it is removed.
func TestSystemdControlPlane(t *testing.T) {
	t.Parallel()
	c := newComputer(t)
	before := c.files()
	dry := c.root("interlock serve install --listen 127.0.0.1:80 --dry-run")
	for _, text := range []string{"root       run      useradd", "/etc/systemd/system/sh.interlock.serve.service", "sh.interlock.backup.timer", "nothing was changed"} {
		if !strings.Contains(dry, text) {
			t.Errorf("the dry run lacks %q:\n%s", text, dry)
		}
	}
	if more := difference(c.files(), before); len(more) > 0 {
		t.Errorf("the dry run made %v", more)
	}

	// As a user: sudo is asked once.
	c.fleet("interlock serve install --listen 127.0.0.1:80 --assets /srv/assets --trusted-proxies 10.0.0.1,10.0.0.2")
	first := c.service("sh.interlock.serve")
	if first.state != "active" || first.user != "interlock" {
		t.Fatalf("the service is %+v", first)
	}
	const health = "curl -fsS http://127.0.0.1/q/health"
	c.root(health)
	if line := c.root("tr '\\0' ' ' </proc/" + first.pid + "/cmdline"); !strings.Contains(line, "--assets=/srv/assets") || !strings.Contains(line, "--trusted-proxies=10.0.0.2") {
		t.Errorf("it was started as %s", line)
	}
	if modes := c.root("stat -c '%U %a' /var/lib/interlock /var/lib/interlock/interlock.db; stat -c '%U %a' /usr/local/lib/interlock/current/interlock"); modes != "interlock 700\ninterlock 600\nroot 755\n" {
		t.Errorf("owners and modes are\n%s", modes)
	}
	if out := c.root("interlock serve install --listen 127.0.0.1:80 --assets /srv/assets --trusted-proxies 10.0.0.1,10.0.0.2"); strings.Contains(out, "write") || strings.Contains(out, "replace") {
		t.Errorf("the same again would change\n%s", out)
	}
	if again := c.service("sh.interlock.serve"); again != first {
		t.Errorf("the same again made it %+v, want %+v", again, first)
	}
	c.root("systemctl start sh.interlock.backup.service && ls /var/lib/interlock/backups/*/interlock.db /var/lib/interlock/backups/*/blobs.txt")
	c.root("kill -9 " + first.pid)
	c.says("it is back after kill -9", "root", health)
	c.tool("reboot", c.dir)
	c.says("it is back after a reboot", "root", health)

	// Other options; a listener that cannot be had is said and leaves the data.
	c.root("interlock serve install --listen 127.0.0.1:8081")
	c.says("it listens elsewhere", "root", "curl -fsS http://127.0.0.1:8081/q/health")

	c.root("interlock serve uninstall --yes")
	if got := difference(c.files(), before); !slicesHaveOnly(got, "/var/lib/interlock/", "/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow", "/etc/subuid", "/etc/subgid") {
		t.Errorf("uninstalling left %v", got)
	}
	c.root("[ -f /var/lib/interlock/interlock.db ] && ! systemctl is-active sh.interlock.serve sh.interlock.backup.timer")
}

func slicesHaveOnly(all []string, prefixes ...string) bool {
next:
	for _, s := range all {
		for _, p := range prefixes {
			if strings.HasPrefix(s, p) {
				continue next
			}
		}
		return false
	}
	return true
}

// A first install that does not serve leaves no service that fails for ever, and says where to look.
func TestSystemdControlPlaneThatCannotServe(t *testing.T) {
	t.Parallel()
	c := newComputer(t)
	got := c.as("root", "interlock serve install --listen 192.0.2.1:80 --insecure-http")
	if got.code == 0 || !strings.Contains(got.err, "does not serve") || !strings.Contains(got.err, "journalctl -u sh.interlock.serve") {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	if left := c.root("ls /etc/systemd/system | grep interlock || true; ls /usr/local/lib/interlock 2>/dev/null || true"); left != "" {
		t.Errorf("it left %s", left)
	}
}

// nextVersion is a later version of the program.
const nextVersion = "0.2.0"

var buildNext sync.Mutex

// nextProgram is a folder that everybody may read, with a build of the next version in it.
func nextProgram(t *testing.T) (dir string) {
	t.Helper()
	buildNext.Lock() // two builds at once would link the same twice
	defer buildNext.Unlock()
	dir = tempDir(t)
	err := goRun("build", "-ldflags", "-s -w -X interlock.sh/cli.Version="+nextVersion, "-o", filepath.Join(dir, "next"), "./cmd/interlock")
	if err := errors.Join(err, os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// An upgrade takes over when the new program serves, and goes back by itself when it ends at once, hangs,
// or is no interlock at all.
func TestSystemdControlPlaneUpgrade(t *testing.T) {
	t.Parallel()
	dir := nextProgram(t)
	// Programs that say a version and then misbehave. All but serving goes to the real one.
	for name, serve := range map[string]string{"ends": "exit 1", "hangs": "exec sleep 1000"} {
		text := fmt.Sprintf("#!/bin/sh\n[ \"$1\" != --version ] || { echo 'interlock 0.3.0-%s · go'; exit; }\n[ \"$1 $2\" != 'serve --data' ] || %s\nexec /srv/next/next \"$@\"\n", name, serve)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := newComputer(t, dir+":/srv/next:ro")
	c.root("interlock serve install")
	serves := func(version string) {
		t.Helper()
		if got := c.root("curl -fsS " + planeURL + "/q/health"); !strings.Contains(got, `"version":"`+version+`"`) {
			t.Errorf("%s does not serve: %s", version, got)
		}
	}
	serves(version)
	c.root("sudo -u interlock /usr/local/lib/interlock/current/interlock admin owner-token --data /var/lib/interlock | HOME=/root interlock login && HOME=/root interlock projects new kept")

	c.root("interlock serve upgrade --program /srv/next/next")
	serves(nextVersion)
	for name, within := range map[string]string{"ends": "60s", "hangs": "3s"} {
		got := c.as("root", "interlock serve upgrade --program /srv/next/"+name+" --within "+within)
		if got.code == 0 || !strings.Contains(got.err, "the version before serves again") {
			t.Errorf("%s: exit %d\n%s%s", name, got.code, got.out, got.err)
		}
		serves(nextVersion)
	}
	if got := c.as("root", "interlock serve upgrade --program /bin/true"); got.code == 0 || !strings.Contains(got.err, "does not say that it is a version of interlock") {
		t.Errorf("no interlock: exit %d\n%s%s", got.code, got.out, got.err)
	}
	if got := c.root("HOME=/root interlock projects"); !strings.Contains(got, "kept") {
		t.Errorf("the projects are now\n%s", got)
	}
	// From one version to itself nothing happens.
	if got := c.root("interlock serve upgrade --program /srv/next/next"); !strings.Contains(got, "already") {
		t.Errorf("to itself: %s", got)
	}
}
