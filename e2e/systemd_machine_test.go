//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"interlock.sh/fleet"
	"interlock.sh/internal/testkit/gguftiny"
)

// computer is a throw-away machine whose first process is a real systemd, with a user fleet, sudo and a
// control plane of its own: it has no network but loopback. packaging/test/systemd-machine.sh makes it.
type computer struct {
	t   *testing.T
	dir string
}

const (
	machineTool = "../packaging/test/systemd-machine.sh"
	planeURL    = "http://127.0.0.1:8090"
	unitFolder  = "/etc/systemd/system"
	// probeProgram is this test program, inside: see maybeProbe.
	probeProgram = "/srv/probe"
)

// newComputer boots one. It has the real llama-server; binds are more paths of this machine, as HOST:INSIDE.
func newComputer(t *testing.T, binds ...string) *computer {
	t.Helper()
	c := &computer{t: t, dir: filepath.Join(tempDir(t), "machine")}
	c.tool("create", c.dir)
	t.Cleanup(func() { c.tool("destroy", c.dir) })
	server := realServer(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"start", c.dir, "--bind", assets + ":/srv/assets:ro", "--bind", program + ":/usr/local/bin/interlock:ro",
		"--bind", filepath.Dir(server) + ":/srv/llama:ro", "--bind", self + ":" + probeProgram + ":ro"}
	for _, b := range binds {
		args = append(args, "--bind", b)
	}
	c.tool(args...)
	c.root(`printf '%s\n' 'fleet ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/fleet; ln -s /srv/llama/` + filepath.Base(server) + ` /usr/local/bin/llama-server`)
	return c
}

func (c *computer) tool(args ...string) {
	c.t.Helper()
	cmd := exec.Command(machineTool, args...) // also when the test has ended
	cmd.Env = append(os.Environ(), "EXTRA_PACKAGES=sudo,curl,procps,libgomp1")
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("systemd-machine %s: %v\n%s", args[0], err, out)
	}
}

// as runs a script as a user of the machine.
func (c *computer) as(user, script string) output {
	c.t.Helper()
	return runProgram(c.t, os.Environ(), script, machineTool, "exec", c.dir, "-u", user, "--", "bash", "-s")
}

// ok runs a script that must succeed, and gives what it printed.
func (c *computer) ok(user, script string) string {
	c.t.Helper()
	got := c.as(user, script)
	if got.code != 0 {
		c.t.Fatalf("%s ran %q: exit %d\n%s%s", user, script, got.code, got.out, got.err)
	}
	return got.out
}

func (c *computer) root(script string) string  { c.t.Helper(); return c.ok("root", script) }
func (c *computer) fleet(script string) string { c.t.Helper(); return c.ok("fleet", script) }

// says asks the machine until a script succeeds.
func (c *computer) says(what, user, script string) {
	c.t.Helper()
	until(c.t, what, func() error {
		if got := c.as(user, script); got.code != 0 {
			return fmt.Errorf("exit %d: %s%s", got.code, got.out, got.err)
		}
		return nil
	})
}

// plane starts a control plane that comes back with the machine, and signs its owner in.
func (c *computer) plane() {
	c.t.Helper()
	c.root(`cat >` + unitFolder + `/plane.service <<'UNIT'
[Service]
Environment=HOME=/root
ExecStart=/usr/local/bin/interlock serve --data /var/plane --assets /srv/assets
[Install]
WantedBy=multi-user.target
UNIT
systemctl -q enable --now plane`)
	c.says("the control plane serves", "root", "curl -fsS "+planeURL+"/q/health")
	c.root(`journalctl -u plane -o cat | sed -n 's/^owner token: //p' | HOME=/root interlock login >/dev/null`)
	c.root("HOME=/root interlock projects new " + project)
}

// owner runs the owner's command line in the machine and decodes what it prints.
func owned[T any](c *computer, args string) (v T) {
	c.t.Helper()
	out := c.root("HOME=/root interlock " + args + " --json")
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		c.t.Fatalf("interlock %s: %v\n%s", args, err, out)
	}
	return v
}

// group registers a model group and gives its id and the lines to paste.
func (c *computer) group(name string) (id string, lines map[fleet.Role]string) {
	c.t.Helper()
	got := owned[fleet.NewGroup](c, "models register --group "+name)
	lines = map[fleet.Role]string{}
	for _, k := range got.Keys {
		lines[k.Role] = k.Line
	}
	return got.Group.ID, lines
}

// serve gives a group the tiny model under an alias.
func (c *computer) serve(group, alias string) {
	c.t.Helper()
	model := tiny(c.t, gguftiny.Options{})[0]
	b, err := os.ReadFile(model)
	if err != nil {
		c.t.Fatal(err)
	}
	if got := runProgram(c.t, os.Environ(), string(b), machineTool, "exec", c.dir, "--", "sh", "-c", "cat >/var/tmp/tiny.gguf"); got.code != 0 {
		c.t.Fatalf("bring the model: %s", got.err)
	}
	c.root("export HOME=/root; interlock models release create first --group " + group + " --file /var/tmp/tiny.gguf --license test --context 1024 --arg=-t --arg=1 &&" +
		" interlock models deploy first --group " + group + " --alias " + alias)
}

// member is what the control plane says of the group's only machine.
func (c *computer) member(group string) (fleet.Machine, error) {
	got := owned[fleet.Status](c, "models status --group "+group)
	if len(got.Machines) != 1 {
		return fleet.Machine{}, fmt.Errorf("%d machines", len(got.Machines))
	}
	return got.Machines[0], nil
}

func (c *computer) wantMember(group string, want fleet.StateKind) {
	c.t.Helper()
	until(c.t, "the control plane shows the machine as "+string(want), func() error {
		m, err := c.member(group)
		if err == nil && m.State.Kind != want {
			err = fmt.Errorf("it is %s", m.State)
		}
		return err
	})
}

// serviceFacts are what systemd says of a service.
type serviceFacts struct{ state, user, pid string }

func workerUnit(group string, role fleet.Role) string {
	return "sh.interlock.model-worker." + group + "." + string(role)
}

func (c *computer) service(unit string) (s serviceFacts) {
	c.t.Helper()
	for line := range strings.Lines(c.root("systemctl show -p ActiveState -p User -p MainPID " + unit)) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key {
		case "ActiveState":
			s.state = value
		case "User":
			s.user = value
		case "MainPID":
			s.pid = value
		}
	}
	return s
}

// files lists what the machine has in the places that an install touches.
func (c *computer) files() []string {
	c.t.Helper()
	out := c.root(`find /home/fleet /etc /usr/local /var/lib/systemd/linger /var/lib/interlock /root -xdev \( -type f -o -type l \) 2>/dev/null |
		grep -v -e /etc/machine-id -e '[.]interlock/' | sort`)
	return strings.Fields(out)
}

// difference lists what is in one list and not in the other.
func difference(all, without []string) (out []string) {
	have := map[string]bool{}
	for _, s := range without {
		have[s] = true
	}
	for _, s := range all {
		if !have[s] {
			out = append(out, s)
		}
	}
	return out
}
