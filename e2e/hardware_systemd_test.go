//go:build linux

package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"interlock.sh/ai"
	"interlock.sh/internal/testkit/gguftiny"
)

// "Your hardware" on a machine whose first process is systemd: the pasted line installs a service that
// runs as the installing user, comes back after a kill and after a restart of the machine, and goes away
// with the uninstall, which leaves what is the owner's.
func TestYourHardwareAsAService(t *testing.T) {
	t.Parallel()
	weights := tiny(t, gguftiny.Options{})[0]
	c := newComputer(t, filepath.Dir(weights)+":/srv/private:ro")
	c.root("install -D -m 644 /srv/private/tiny.gguf /srv/weights/tiny.gguf") // where the user may read it
	c.plane()
	pasted := c.root("HOME=/root interlock hardware command --project " + project)

	// A dry run says what it would do, and does nothing.
	dry := c.fleet(strings.Replace(pasted, " --url ", " --dry-run --url ", 1) + "\ntest ! -e ~/.interlock")
	if dry != "" {
		t.Logf("printed: %s", dry)
	}
	c.fleet("export LLM_ALIAS=garage LLM_MODEL=/srv/weights/tiny.gguf\n" + strings.Replace(pasted, " --url ", " --name garage --url ", 1))
	defer func() {
		if t.Failed() {
			t.Logf("the worker:\n%s", c.as("fleet", "interlock hardware status; cat ~/.interlock/task-worker/run/state.json; cat /proc/$(systemctl show -p MainPID --value sh.interlock.task-worker)/stat; tail -n 20 ~/.interlock/task-worker/logs/*.log").out)
		}
	}()
	c.says("the service is up", "fleet", `test "$(systemctl is-active sh.interlock.task-worker)" = active && test "$(systemctl is-enabled sh.interlock.task-worker)" = enabled`)
	if user := strings.TrimSpace(c.root("ps -o user= -p $(systemctl show -p MainPID --value sh.interlock.task-worker)")); user != "fleet" {
		t.Errorf("the worker runs as %s", user)
	}
	// The key stands in the owner's file alone.
	key := strings.TrimSpace(c.fleet(`sed -n 's/^INTERLOCK_TASK_WORKER_KEY=//p' ~/.interlock/task-worker/env; stat -c %a ~/.interlock/task-worker/env | grep -qx 600`))
	if got := c.as("root", "grep -rlF '"+key+"' "+unitFolder+" /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null"); strings.TrimSpace(got.out) != "" {
		t.Errorf("the key is also in %s", got.out)
	}
	c.wantGarage()

	c.root("kill -KILL $(systemctl show -p MainPID --value sh.interlock.task-worker)")
	c.wantGarage()
	c.tool("reboot", c.dir)
	c.says("the control plane is back", "root", "curl -fsS "+planeURL+"/q/health")
	c.wantGarage()

	// The lifecycle needs no root.
	setup := "curl -fsS " + planeURL + "/assets/setup.sh -o /tmp/setup.sh\n"
	c.fleet(setup + "sh /tmp/setup.sh status | grep -q ready && sh /tmp/setup.sh doctor && sh /tmp/setup.sh restart")
	c.wantGarage()

	// Root refused: nothing is removed.
	c.root("mv /etc/sudoers.d/fleet /srv/fleet.sudoers")
	if got := c.as("fleet", "sh /tmp/setup.sh uninstall"); got.code == 0 || !strings.Contains(got.err, "nothing was removed") {
		t.Errorf("without root: exit %d\n%s%s", got.code, got.out, got.err)
	}
	c.wantGarage()
	c.root("mv /srv/fleet.sudoers /etc/sudoers.d/fleet")
	c.fleet("sh /tmp/setup.sh uninstall")
	left := c.fleet("cd ~/.interlock/task-worker && find . -type f | sort; test ! -e " + unitFolder + "/sh.interlock.task-worker.service; systemctl list-units --all 'sh.interlock.*' --no-legend")
	for line := range strings.Lines(left) {
		if line = strings.TrimSpace(line); line != "./env" && !strings.HasPrefix(line, "./logs/") {
			t.Errorf("left: %s", line)
		}
	}
	if got := c.as("root", "pgrep -u fleet -fl 'hardware|llama'"); got.code == 0 {
		t.Errorf("still running: %s", got.out)
	}
}

// wantGarage waits until the hardware of the machine answers a run.
func (c *computer) wantGarage() {
	c.t.Helper()
	c.says("the hardware answers", "root", "HOME=/root interlock ask hello --model garage --project "+project)
	if runs := owned[ai.RunList](c, "runs list --project "+project); len(runs.Runs) == 0 || runs.Runs[0].WorkerID != "garage" {
		c.t.Errorf("the runs: %+v", runs)
	}
}
