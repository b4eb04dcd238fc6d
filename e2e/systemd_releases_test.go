//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"interlock.sh/agent/localapi"
	"interlock.sh/ai"
	"interlock.sh/fleet"
	"interlock.sh/internal/testkit/gguftiny"
	"interlock.sh/tasks"
)

// releases is a folder of versions of the program, good and broken, each as a release machine would build
// it: <version>/interlock-<platform>.
type releases struct {
	t   *testing.T
	dir string
}

func newReleases(t *testing.T) releases { return releases{t, tempDir(t)} }

func (r releases) path(version string) string {
	r.t.Helper()
	dir := filepath.Join(r.dir, version)
	if err := os.Mkdir(dir, 0o755); err != nil {
		r.t.Fatal(err)
	}
	return filepath.Join(dir, "interlock-"+platform)
}

// edit is a mistake in the source: what stands there, and what stands there instead.
type edit struct{ file, is, becomes string }

// built is the program as it stands, but for some mistakes.
func (r releases) built(version string, mistakes ...edit) {
	r.t.Helper()
	replace := map[string]string{}
	for i, m := range mistakes {
		path, err := filepath.Abs(filepath.Join("..", m.file))
		if err != nil {
			r.t.Fatal(err)
		}
		from := path
		if changed, again := replace[path]; again {
			from = changed
		}
		b, err := os.ReadFile(from)
		if err != nil {
			r.t.Fatal(err)
		}
		if n := strings.Count(string(b), m.is); n != 1 {
			r.t.Fatalf("%s has %q %d times, want it once", m.file, m.is, n)
		}
		changed := filepath.Join(r.dir, fmt.Sprintf("%s-%d.go", version, i))
		if err := os.WriteFile(changed, []byte(strings.Replace(string(b), m.is, m.becomes, 1)), 0o600); err != nil {
			r.t.Fatal(err)
		}
		replace[path] = changed
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		r.t.Fatal(err)
	}
	path := filepath.Join(r.dir, version+".json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := goRun("build", "-overlay", path, "-ldflags", "-s -w -X interlock.sh/cli.Version="+version, "-o", r.path(version), "./cmd/interlock"); err != nil {
		r.t.Fatal(err)
	}
}

// updated is a computer whose agent serves a model and is updated from its own control plane, with work
// coming in all the time.
type updated struct {
	*computer
	group, key string
}

const (
	updaterUnit = "sh.interlock.updater.service"
	appDir      = "/home/fleet/.nightshift/app"
	alias       = "small"
)

// newUpdated installs it from a signed release of the program under test, whose version it gives.
func newUpdated(t *testing.T, r releases) (m *updated, first string) {
	t.Helper()
	model := filepath.Dir(tiny(t, gguftiny.Options{})[0])
	m = &updated{computer: newComputer(t, r.dir+":/srv/releases", model+":/srv/model:ro")}
	m.plane()
	words := strings.Fields(m.root("interlock --version")) // interlock, its version, what built it
	first = words[1]
	if err := os.Link(program, r.path(first)); err != nil {
		t.Fatal(err)
	}
	m.release(passphrase(passphrases...), "keys init --scrypt-work 14")
	m.publish(first)

	var lines map[fleet.Role]string
	m.group, lines = m.computer.group(alias)
	m.owner("models release create first --group small --file /srv/model/tiny.gguf --license test --context 4096 --slots 2")
	m.owner("models deploy first --group small --alias " + alias)
	m.fleet(lines[fleet.RoleClient])
	m.root("systemctl stop sh.interlock.updater.timer") // the test says when
	m.wantMember(m.group, fleet.StateReady)

	m.key = strings.TrimSpace(m.owner("keys new work --kind sdk"))
	m.root(`cat >/usr/local/bin/work <<'END'
while sleep .3; do
  code=$(curl -s -o /dev/null -m 5 -w '%{http_code}' -H 'Authorization: Bearer ` + m.key + `' -H 'Content-Type: application/json' \
    -d '{"model":"` + alias + `","prompt":"hello","maxTokens":4}' ` + planeURL + `/api/ai/runs)
  case $code in 2*) ;; *) echo "$code" >>/var/log/refused ;; esac
done
END
printf '[Service]\nExecStart=/bin/bash /usr/local/bin/work\n[Install]\nWantedBy=multi-user.target\n' >` + unitFolder + `/work.service
systemctl -q enable --now work`)
	return m, first
}

func (m *updated) owner(args string) string {
	m.t.Helper()
	return m.root("HOME=/root interlock " + args)
}

// release runs a command of the release machine.
func (m *updated) release(in, args string) {
	m.t.Helper()
	m.owner("release " + args + " --repository /var/repository --keys /var/keys <<'END'\n" + in + "END\n")
}

// publish signs a version and brings it to the control plane.
func (m *updated) publish(version string) {
	m.t.Helper()
	m.owner("release build --dist /srv/releases/" + version + " --version " + version)
	m.release(passphrase("targets-1"), "sign /srv/releases/"+version)
	m.release(passphrase("snapshot-1", "timestamp-1"), "publish --api http://localhost:8090")
}

// times sets the updater's, as its owner would: by a drop-in.
func (m *updated) times(deadline, steady string) {
	m.t.Helper()
	m.root("mkdir -p " + unitFolder + "/" + updaterUnit + ".d && cat >" + unitFolder + "/" + updaterUnit + `.d/times.conf <<END
[Service]
ExecStart=
ExecStart=` + appDir + `/updater/interlock updater run --min-every 1ms --look-every 200ms --reach-grace 2s --deadline ` + deadline + ` --steady ` + steady + `
END
systemctl daemon-reload`)
}

// waiting is what scripts that wait begin with: wait_for CONDITION, a minute at most; the conditions "current
// names this version" and "the updater's pass has ended"; and begin, which starts a pass.
const waiting = `wait_for() { local end=$((SECONDS + 60)); until eval "$1"; do
  [ $SECONDS -lt $end ] || { echo "not within a minute: $1" >&2; exit 1; }; sleep .02; done; }
current() { [ "$(readlink ` + appDir + `/current)" = "$1" ]; }
ended() { [ "$(systemctl show --value -p ActiveState ` + updaterUnit + `)" != activating ]; }
begin() { systemctl reset-failed ` + updaterUnit + `; systemctl start --no-block ` + updaterUnit + `; wait_for '! ended || [ "$(systemctl show --value -p Job ` + updaterUnit + `)" = "" ]'; }
`

// pass runs the updater's service once and waits for its end. swapped is when current named the version,
// back when it named another one again.
func (m *updated) pass(version string) (swapped, back time.Time) {
	m.t.Helper()
	out := m.root(waiting + `begin
wait_for 'current ` + version + ` || ended'
stat -c %.9Z ` + appDir + `/current
wait_for ended
stat -c %.9Z ` + appDir + `/current`)
	lines := strings.Fields(out)
	if len(lines) != 2 {
		m.t.Fatalf("the pass says %q", out)
	}
	return unixTime(m.t, lines[0]), unixTime(m.t, lines[1])
}

// agentIs is a condition to wait for: the agent's process is the program of that version.
func (m *updated) agentIs(version string) string {
	return `[ "$(readlink /proc/$(systemctl show --value -p MainPID ` + workerUnit(m.group, fleet.RoleClient) + `)/exe)" = ` + appDir + "/" + version + "/interlock ]"
}

func unixTime(t *testing.T, text string) time.Time {
	t.Helper()
	d, err := time.ParseDuration(text + "s")
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(0, 0).Add(d)
}

func (m *updated) current() string {
	m.t.Helper()
	return strings.TrimSpace(m.root("readlink " + appDir + "/current"))
}

// agent is what the agent says on its socket.
func (m *updated) agent() (localapi.Status, error) {
	m.t.Helper()
	var v struct {
		Agents []localapi.Status `json:"agents"`
	}
	if err := json.Unmarshal([]byte(m.fleet("interlock agent status --json")), &v); err != nil || len(v.Agents) != 1 {
		m.t.Fatalf("%+v, %v", v, err)
	}
	if st := v.Agents[0]; st.Pid == 0 {
		return st, fmt.Errorf("it does not run: %s", st.LastError)
	}
	return v.Agents[0], nil
}

// wantServing waits until the agent runs a version and serves.
func (m *updated) wantServing(version string) {
	m.t.Helper()
	until(m.t, "the agent serves as version "+version, func() error {
		st, err := m.agent()
		if err == nil && (st.Version != version || len(st.Report.Deployments) != 1 || !st.Report.Deployments[0].State.Serving()) {
			err = fmt.Errorf("version %s: %+v, last error %q", st.Version, st.Report.Deployments, st.LastError)
		}
		return err
	})
}

// model is the process of the model server.
func (m *updated) model() string {
	m.t.Helper()
	return m.root("pgrep -u fleet -f -- '--model ' || true")
}

// report is the newest news of the updater, as the fleet has it.
func (m *updated) report() fleet.UpdateReport {
	m.t.Helper()
	got := owned[struct {
		Machines []fleet.Machine `json:"machines"`
	}](m.computer, "models machine list --group "+m.group)
	if len(got.Machines) != 1 || got.Machines[0].Update == nil {
		return fleet.UpdateReport{}
	}
	return *got.Machines[0].Update
}

func (m *updated) wantReport(state, version string) (r fleet.UpdateReport) {
	m.t.Helper()
	until(m.t, "the fleet knows "+state+" "+version, func() error {
		if r = m.report(); r.State != state || r.Version != version {
			return fmt.Errorf("it knows %+v", r)
		}
		return nil
	})
	return r
}

// runs are all runs that were made since then, oldest first.
func (m *updated) runs(since time.Time) (all []ai.Run) {
	m.t.Helper()
	for next := ""; ; {
		var page ai.RunList
		out := m.root("curl -fsS -H 'Authorization: Bearer " + m.key + "' '" + planeURL + "/api/ai/runs?limit=500&before=" + next + "'")
		if err := json.Unmarshal([]byte(out), &page); err != nil {
			m.t.Fatalf("%v\n%s", err, out)
		}
		for _, r := range page.Runs {
			if r.CreatedAt.Before(since) {
				return all
			}
			all = append([]ai.Run{r}, all...)
		}
		if next = page.Next; next == "" {
			return all
		}
	}
}

// wantWork waits until every run made between then and now, and one made from now on, has ended. It says how
// many there were, how many did not succeed, and the longest time between two claims.
func (m *updated) wantWork(since time.Time) (n, lost int, gap time.Duration) {
	m.t.Helper()
	now := time.Now()
	var all []ai.Run
	until(m.t, "the work goes on", func() error {
		all = m.runs(since.Add(-10 * time.Second)) // the last claim before counts
		goesOn := false
		for _, r := range all {
			goesOn = goesOn || r.CreatedAt.After(now) && r.State == tasks.Succeeded
			if r.CreatedAt.Before(now) && !r.State.Terminal() {
				return fmt.Errorf("run %s is %s, attempt %d", r.ID, r.State, r.Attempt)
			}
		}
		if !goesOn {
			return fmt.Errorf("no run since %v has succeeded", now)
		}
		return nil
	})
	var claims []time.Time
	for _, r := range all {
		if r.StartedAt != nil {
			claims = append(claims, *r.StartedAt)
		}
		if r.CreatedAt.Before(since) {
			continue
		}
		n++
		if r.State.Terminal() && r.State != tasks.Succeeded {
			lost++
			m.t.Logf("run %s is %s: %+v", r.ID, r.State, r.Error)
		}
	}
	slices.SortFunc(claims, time.Time.Compare)
	for i, at := range claims[1:] {
		if at.After(since) {
			gap = max(gap, at.Sub(claims[i]))
		}
	}
	return n, lost, gap
}

// refused is how many submissions found no machine for them.
func (m *updated) refused() int {
	m.t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(m.root("cat /var/log/refused 2>/dev/null | grep -c 409 || true")))
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}
