//go:build linux

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"interlock.sh/fleet"
)

const interlock = "~/.nightshift/app/current/interlock "

// The pasted line makes a service that runs as the user who pasted it, starts with the machine and after a
// failure, outlives the user's session, and is left alone by the same line; uninstalling leaves the machine
// as it was but for the shared cache.
func TestSystemdPastedLine(t *testing.T) {
	t.Parallel()
	c := newComputer(t)
	c.plane()
	group, lines := c.group("small")
	unit := workerUnit(group, fleet.RoleClient)
	c.serve("small", "tiny")
	before := c.files()

	out := c.fleet(lines[fleet.RoleClient])
	running := c.service(unit)
	if running.state != "active" || running.user != "fleet" || !strings.Contains(out, "(pid "+running.pid+")") {
		t.Fatalf("after the line the service is %+v\n%s", running, out)
	}
	c.wantMember(group, fleet.StateReady)
	ask := func() { t.Helper(); c.root("HOME=/root interlock ask Hello --model tiny --json | grep -q succeeded") }
	ask()
	// The owner's word: the model leaves the memory, and comes back.
	c.fleet(interlock + "agent pause")
	c.says("no model server runs", "root", "! pgrep -u fleet llama-server")
	c.wantMember(group, fleet.StatePaused)
	c.fleet(interlock + "agent resume")
	c.wantMember(group, fleet.StateReady)
	if key := bootstrapKey(lines[fleet.RoleClient]); strings.Contains(c.root("cat "+unitFolder+"/sh.interlock.*; cat /proc/"+running.pid+"/{environ,cmdline} | tr '\\0' '\\n'"), key) {
		t.Error("the key is in a unit, an environment or a command line")
	}
	credential := c.fleet("sed -n 's/^INTERLOCK_MACHINE_CREDENTIAL=//p' ~/.nightshift/groups/*/roles/client/worker.env")
	if all := c.root("cat " + unitFolder + "/sh.interlock.*"); strings.Contains(all, strings.TrimSpace(credential)) {
		t.Error("the credential is in a unit")
	}
	if modes := c.fleet("stat -c %a ~/.nightshift/groups/*/roles/client/worker.env"); modes != "600\n" {
		t.Errorf("worker.env has mode %s", modes)
	}

	// Again, without a key: nothing changes, and root is not asked.
	c.root("rm /etc/sudoers.d/fleet")
	again := c.fleet(withoutKey(lines[fleet.RoleClient]))
	if now := c.service(unit); now != running || !strings.Contains(again, "services: as they should be") {
		t.Errorf("after the same line the service is %+v, want %+v\n%s", now, running, again)
	}
	c.root(`printf '%s\n' 'fleet ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/fleet`)

	// The end of the session of whoever pasted it is not the service's.
	c.root("systemctl start user@1000; loginctl terminate-user fleet; systemctl stop user@1000")
	if now := c.service(unit); now != running {
		t.Errorf("after the logout the service is %+v, want %+v", now, running)
	}

	c.root("kill -9 " + running.pid)
	c.says("the service is back after kill -9", "root", fmt.Sprintf(`pid=$(systemctl show --value -p MainPID %s); [ "$pid" != 0 ] && [ "$pid" != %s ]`, unit, running.pid))
	c.wantMember(group, fleet.StateReady)
	ask()

	c.tool("reboot", c.dir)
	c.says("the service is back after a reboot", "root", "systemctl is-active "+unit+" sh.interlock.updater.timer")
	if now := c.service(unit); now.user != "fleet" {
		t.Errorf("after the reboot the service is %+v", now)
	}
	c.says("the control plane serves", "root", "curl -fsS "+planeURL+"/q/health")
	c.wantMember(group, fleet.StateReady)
	ask()

	c.fleet("echo mine >~/notes")
	out = c.fleet(interlock + "agent uninstall --all --yes")
	// The agent said so itself when it left: nobody waits until it has not been seen for long enough.
	if m, err := c.member(group); err != nil || m.State.Kind != fleet.StateOffline {
		t.Errorf("right after uninstalling the control plane shows the machine as %s, %v", m.State, err)
	}
	left := difference(c.files(), before)
	others := slices.DeleteFunc(slices.Clone(left), func(p string) bool { return strings.HasPrefix(p, "/home/fleet/.nightshift/cache/") })
	if !slices.Equal(others, []string{"/home/fleet/notes"}) || len(others) == len(left) {
		t.Errorf("uninstalling left %v, want the cache and what is not ours", left)
	}
	if lost := difference(before, c.files()); len(lost) > 0 {
		t.Errorf("uninstalling took %v", lost)
	}
	if runs := c.root("systemctl list-units --all --no-legend 'sh.interlock*'; pgrep -u fleet -f interlock || true"); runs != "" {
		t.Errorf("still there: %s", runs)
	}
	if !strings.Contains(out, "/home/fleet/.nightshift/cache  (shared model files, ") {
		t.Errorf("what stays is not said:\n%s", out)
	}
	// A machine that was uninstalled needs a fresh key.
	if got := c.as("fleet", withoutKey(lines[fleet.RoleClient])); !strings.Contains(got.err, "no key was given") {
		t.Errorf("the line without a key: exit %d\n%s", got.code, got.err)
	}
}

// bootstrapKey is the key in a pasted line.
func bootstrapKey(line string) string {
	_, rest, _ := strings.Cut(line, "INTERLOCK_MODEL_KEY='")
	key, _, _ := strings.Cut(rest, "'")
	return key
}

// Several groups and roles are services of their own beside one updater; each is removed alone, and the
// updater goes with the last.
func TestSystemdSeveralEnrollments(t *testing.T) {
	t.Parallel()
	c := newComputer(t)
	c.plane()
	var units []string
	var groups []string
	for _, name := range []string{"small", "large"} {
		group, lines := c.group(name)
		groups = append(groups, group)
		c.fleet(lines[fleet.RoleClient])
		units = append(units, workerUnit(group, fleet.RoleClient))
		if name == "large" {
			c.fleet(lines[fleet.RoleTrainer])
			units = append(units, workerUnit(group, fleet.RoleTrainer))
		}
	}
	installed := func() string { return strings.TrimSpace(c.root("cd " + unitFolder + " && ls -d sh.interlock.*")) }
	want := append(slices.Clone(units), "sh.interlock.updater")
	c.says("all services run", "root", "systemctl is-active "+strings.Join(units, " ")+" sh.interlock.updater.timer")
	if n := len(strings.Split(installed(), "\n")); n != len(want)+1 {
		t.Errorf("installed are\n%s", installed())
	}
	if out := c.fleet(interlock + "agent service status"); !strings.Contains(out, units[0]) || !strings.Contains(out, "active (running)") {
		t.Errorf("status says\n%s", out)
	}
	c.fleet(interlock + "agent uninstall --group large --role trainer --yes")
	if got := installed(); strings.Contains(got, units[2]) || !strings.Contains(got, units[1]) {
		t.Errorf("after the trainer's end installed are\n%s", got)
	}
	c.says("the others run", "root", "systemctl is-active "+units[0]+" "+units[1])
	c.fleet("[ -d ~/.nightshift/groups/" + groups[1] + "/roles/client ] && [ ! -e ~/.nightshift/groups/" + groups[1] + "/roles/trainer ]")
	c.fleet(interlock + "agent service uninstall --group small")
	c.fleet("[ -f ~/.nightshift/groups/" + groups[0] + "/roles/client/worker.env ]") // the enrollment stays
	// A group folder that somebody removed by hand does not keep its service.
	c.fleet("rm -rf ~/.nightshift/groups/" + groups[1])
	// Root removes them as well as their user, as by sudo where that keeps HOME.
	c.root("HOME=/home/fleet /home/fleet/.nightshift/app/current/interlock agent uninstall --all --yes")
	if got := c.root("ls -d " + unitFolder + "/sh.interlock.* 2>/dev/null || true"); got != "" {
		t.Errorf("left installed: %s", got)
	}
}

// A program that a package brought is copied to where its user may update it; an agent that was started by
// hand makes way for its service.
func TestSystemdServiceOfAProgramFromElsewhere(t *testing.T) {
	t.Parallel()
	c := newComputer(t)
	c.plane()
	group, lines := c.group("small")
	unit := workerUnit(group, fleet.RoleClient)
	c.fleet("interlock agent enroll --url " + planeURL + " --group small --role client --key-stdin <<<" + bootstrapKey(lines[fleet.RoleClient]))
	c.fleet("interlock agent start >/dev/null")
	byHand := strings.TrimSpace(c.fleet("pgrep -u fleet -f 'agent run'"))
	out := c.fleet("interlock agent service install")
	for _, text := range []string{"fleet      copy     /usr/local/bin/interlock to /home/fleet/.nightshift/app/", "fleet      link     /home/fleet/.nightshift/app/current"} {
		if !strings.Contains(out, text) {
			t.Errorf("%q is not in\n%s", text, out)
		}
	}
	now := c.service(unit)
	if now.state != "active" || now.pid == byHand || !strings.Contains(c.root("readlink /proc/"+now.pid+"/exe"), "/home/fleet/.nightshift/app/") {
		t.Errorf("the service is %+v, the agent by hand was %s", now, byHand)
	}
	if all := strings.TrimSpace(c.fleet("pgrep -u fleet -f 'agent run'")); all != now.pid {
		t.Errorf("agents that run: %s, want %s alone", all, now.pid)
	}
	if got := c.as("fleet", "interlock agent stop"); !strings.Contains(got.err, "its service starts it again") {
		t.Errorf("a stop by hand says\n%s%s", got.out, got.err)
	}
	c.says("it is started again", "root", fmt.Sprintf(`pid=$(systemctl show --value -p MainPID %s); [ "$pid" != 0 ] && [ "$pid" != %s ]`, unit, now.pid))
}

// The line of a newer version has the service's agent go on as that version, in the same process and without
// root; a unit that somebody changed is written anew and the agent started over.
func TestSystemdServiceOfANewerVersion(t *testing.T) {
	t.Parallel()
	c := newComputer(t, nextProgram(t)+":/srv/next:ro")
	c.plane()
	group, lines := c.group("small")
	c.fleet(lines[fleet.RoleClient])
	unit := workerUnit(group, fleet.RoleClient)
	before := c.service(unit)
	c.root("rm /etc/sudoers.d/fleet")
	out := c.fleet("cd ~/.nightshift/app && mkdir " + nextVersion + " && cp /srv/next/next " + nextVersion + "/interlock && ln -sfn " + nextVersion + " current && " +
		"current/interlock agent service install 2>&1")
	if !strings.Contains(out, "goes on as version "+nextVersion) || !strings.Contains(out, "(pid "+before.pid+")") {
		t.Errorf("it says\n%s", out)
	}
	if exe := c.root("readlink /proc/" + before.pid + "/exe"); !strings.Contains(exe, "/"+nextVersion+"/") {
		t.Errorf("process %s runs %s", before.pid, exe)
	}
	if now := c.service(unit); now != before {
		t.Errorf("the service is %+v, want %+v", now, before)
	}
	until(t, "the control plane sees the version", func() error {
		m, err := c.member(group)
		if err == nil && m.Version != nextVersion {
			err = fmt.Errorf("it is %s", m.Version)
		}
		return err
	})

	c.root(`printf '%s\n' 'fleet ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/fleet; sed -i s/^UMask=.*/UMask=0000/ ` + unitFolder + "/" + unit + ".service; systemctl daemon-reload")
	out = c.fleet(interlock + "agent service install 2>&1")
	now := c.service(unit)
	if !strings.Contains(out, "replace  "+unitFolder+"/"+unit+".service") || now.pid == before.pid || now.state != "active" {
		t.Errorf("after the unit was changed the service is %+v\n%s", now, out)
	}
	c.root("grep -qx UMask=0077 " + unitFolder + "/" + unit + ".service")
}

// Where no service can be, or nobody consents, the machine is as it was, and the way out is named.
func TestSystemdRefusals(t *testing.T) {
	t.Parallel()
	c := newComputer(t)
	c.plane()
	group, lines := c.group("small")
	line := lines[fleet.RoleClient]
	clean := c.files()

	t.Run("a dry run", func(t *testing.T) {
		got := c.as("fleet", strings.Replace(line, "--role ", "--dry-run --role ", 1))
		if got.code != 0 || !strings.Contains(got.err, "nothing was changed") {
			t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
		}
		if more := difference(c.files(), clean); len(more) > 0 {
			t.Errorf("it made %v", more)
		}
	})
	t.Run("no systemd", func(t *testing.T) {
		got := c.as("root", "unshare -m bash -c 'mount -t tmpfs none /run/systemd && exec setpriv --reuid fleet --regid fleet --init-groups env HOME=/home/fleet bash -s' <<'END'\n"+line+"\nEND")
		if !strings.Contains(got.err, `this machine's init is "systemd"`) || !strings.Contains(got.err, "--no-service") {
			t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
		}
		c.fleet("[ ! -e ~/.nightshift/groups ]") // nothing was enrolled
	})
	t.Run("root", func(t *testing.T) {
		got := c.as("root", line)
		if !strings.Contains(got.err, "an agent runs as an ordinary user") || !strings.Contains(got.err, "--no-service") {
			t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
		}
		c.root("rm -rf ~/.nightshift")
	})
	t.Run("sudo refuses", func(t *testing.T) {
		c.root("rm /etc/sudoers.d/fleet")
		got := c.as("fleet", line)
		for _, word := range []string{"nothing was changed", "this machine is enrolled; try again with: ", "agent service install --group"} {
			if !strings.Contains(got.err, word) { // the exit code is that of the block's last line
				t.Errorf("exit %d, %q is not in\n%s%s", got.code, word, got.out, got.err)
			}
		}
		if units := c.root("ls " + unitFolder + " | grep interlock || true"); units != "" {
			t.Errorf("half installed: %s", units)
		}
	})
	t.Run("then consents, then refuses to uninstall", func(t *testing.T) {
		c.root(`printf '%s\n' 'fleet ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/fleet`)
		c.fleet(interlock + "agent service install") // the way that was named
		c.says("the service runs", "root", "systemctl is-active "+workerUnit(group, fleet.RoleClient))
		c.root("rm /etc/sudoers.d/fleet")
		before := c.files()
		got := c.as("fleet", interlock+"agent uninstall --all --yes")
		if got.code == 0 || !strings.Contains(got.err, "nothing was removed") {
			t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
		}
		if now := c.files(); !slices.Equal(difference(before, now), nil) {
			t.Errorf("it took %v", difference(before, now))
		}
		c.root("systemctl is-active " + workerUnit(group, fleet.RoleClient))
		if got := c.as("fleet", interlock+"agent uninstall --all"); got.code == 0 || !strings.Contains(got.err, "nothing was changed") {
			t.Errorf("without --yes and a terminal: exit %d\n%s", got.code, got.err)
		}
	})
}
