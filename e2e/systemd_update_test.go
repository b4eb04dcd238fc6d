//go:build linux

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"interlock.sh/fleet"
)

// States of an update, as the fleet shows them.
const (
	upToDate = "current"
	reverted = "reverted"
)

// cure is the file whose presence ends the trouble of a version that sends no heartbeat.
const cure = "/home/fleet/.nightshift/cure"

// Mistakes of the broken versions.
var (
	noHeartbeat = []edit{
		{"agent/report.go", "\t\"log/slog\"\n", "\t\"log/slog\"\n\t\"os\"\n"},
		{"agent/report.go", "\thb := a.Report(ctx)\n\tbound,", `	for _, err := os.Stat("` + cure + `"); err != nil; _, err = os.Stat("` + cure + `") {
		if err := retry.Sleep(ctx, a.clock, 100*time.Millisecond); err != nil {
			return 0, err
		}
	}
	hb := a.Report(ctx)
	bound,`},
	}
	// It dials from an address that the machine does not have.
	noNetwork = []edit{{"client/transport.go", "dialer := &net.Dialer{", "dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, "}}
)

// asAgent is a mistake that shows only when the program runs as an agent.
func asAgent(does string) edit {
	return edit{"cmd/interlock/main.go", "func run() int {\n", `func run() int {
	if len(os.Args) > 2 && os.Args[1] == "agent" && os.Args[2] == "run" {
		` + does + `
	}
`}
}

// matrix collects what became of each version.
type matrix struct {
	*updated
	rows    []string
	refused int // until the newest row
}

// row judges the work since a version was published, and notes it.
func (x *matrix) row(kind, outcome string, begin time.Time, took time.Duration, model string) (gap time.Duration) {
	x.t.Helper()
	n, lost, gap := x.wantWork(begin)
	after, kept := "-", "no"
	if took > 0 {
		after = took.Round(10 * time.Millisecond).String()
	}
	if x.model() == model {
		kept = "yes"
	}
	refused := x.updated.refused()
	x.rows = append(x.rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%d of %d\t%d\t%v", kind, outcome, after, kept, lost, n, refused-x.refused, gap.Round(10*time.Millisecond)))
	x.refused = refused
	if lost > 0 {
		x.t.Errorf("%s: %d runs of %d were lost", kind, lost, n)
	}
	return gap
}

func (x *matrix) table() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "VERSION\tOUTCOME\tREVERTED AFTER\tMODEL KEPT\tRUNS LOST\tREFUSED\tLONGEST TIME WITHOUT A CLAIM")
	for _, r := range x.rows {
		fmt.Fprintln(w, r)
	}
	_ = w.Flush()
	return b.String()
}

// A good version takes over with the model loaded; each broken one is reverted and never taken again, while
// the work goes on; a control plane that is away decides nothing; and an updater that is killed, or a machine
// that restarts, in the middle of an update leaves a machine that runs and brings the update to its end.
func TestSystemdUpdateMatrix(t *testing.T) {
	t.Parallel()
	r := newReleases(t)
	r.built("9.0.1")
	r.built("9.0.2", asAgent("return 1"))
	r.built("9.0.3", asAgent("signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM)\n\t\tselect {}"))
	r.built("9.0.4", noHeartbeat...)
	r.built("9.0.5", noNetwork...)
	r.built("9.0.6", noHeartbeat...)
	r.built("9.0.7")
	m, first := newUpdated(t, r)
	x := &matrix{updated: m}
	t.Cleanup(func() { t.Logf("what became of each version:\n%s", x.table()) })
	good := first
	step := func(name string, do func(t *testing.T)) {
		t.Helper()
		outer := m.computer.t
		t.Run(name, func(t *testing.T) {
			m.computer.t = t
			defer func() { m.computer.t = outer }()
			do(t)
		})
		if t.Failed() {
			t.Fatalf("the machine is not as the next version needs it\n%s", m.root("journalctl -u 'sh.interlock*' -o cat -n 60; cat "+appDir+"/trust/state.json"))
		}
	}

	step("good", func(t *testing.T) {
		m.times("60s", "1s")
		begin, model := time.Now(), m.model()
		agent := m.service(workerUnit(m.group, fleet.RoleClient))
		m.publish("9.0.1")
		m.pass("9.0.1")
		good = "9.0.1"
		m.wantServing(good)
		m.wantReport(upToDate, good)
		if now := m.service(workerUnit(m.group, fleet.RoleClient)); now != agent || m.model() != model {
			t.Errorf("the agent is %+v, was %+v; the model server is %s, was %s", now, agent, m.model(), model)
		}
		t.Logf("no claim for %v", x.row("N+1, good", "runs", begin, 0, model)) // the benchmark has the bound
		if x.refused > 0 {
			t.Errorf("%d submissions were refused meanwhile", x.refused)
		}
	})

	for _, c := range []struct {
		kind, version, deadline string
		adopts                  bool // it takes the model server over and hands it back
		why                     string
	}{
		{"exits 1 at once", "9.0.2", "4s", false, "does not answer"},
		{"hangs at start", "9.0.3", "4s", false, "does not answer"},
		{"sends no heartbeat", "9.0.4", "10s", true, "sent no heartbeat"},
		{"has no network", "9.0.5", "10s", true, "sent no heartbeat"},
	} {
		step(c.kind, func(t *testing.T) {
			m.times(c.deadline, "1s")
			begin, model := time.Now(), m.model()
			m.publish(c.version)
			swapped, back := m.pass(c.version)
			if now := m.current(); now != good {
				t.Fatalf("current is %s, want %s", now, good)
			}
			m.wantServing(good)
			if c.adopts && m.model() != model {
				t.Errorf("the model server is %s, was %s", m.model(), model)
			}
			if r := m.wantReport(reverted, c.version); !strings.Contains(r.Why, c.why) {
				t.Errorf("the reason is %q, want %q in it", r.Why, c.why)
			}
			m.pass(c.version)
			if now := m.current(); now != good {
				t.Errorf("it was taken again: current is %s", now)
			}
			x.row(c.kind, "reverted, kept out", begin, back.Sub(swapped), model)
		})
	}

	step("control plane away", func(t *testing.T) {
		model := m.model()
		m.publish("9.0.6")
		begin := time.Now()
		m.root(waiting + "begin; wait_for '" + m.agentIs("9.0.6") + "'; systemctl stop plane; wait_for ended")
		open := func() {
			t.Helper()
			if now, why := m.current(), m.root("cat "+appDir+"/trust/report.json"); now != "9.0.6" || !strings.Contains(why, "the verdict is open") {
				t.Fatalf("current is %s, the report says %s", now, why)
			}
		}
		open()
		m.pass("9.0.6")
		open()
		m.root("touch " + cure + " && systemctl start plane")
		m.says("the control plane serves", "root", "curl -fsS "+planeURL+"/q/health")
		m.pass("9.0.6")
		good = "9.0.6"
		m.wantReport(upToDate, good)
		m.wantServing(good)
		if m.model() != model {
			t.Errorf("the model server is %s, was %s", m.model(), model)
		}
		x.row("control plane away", "open, then runs", begin, 0, model)
	})

	step("killed and restarted", func(t *testing.T) {
		m.times("60s", "3s")
		m.publish("9.0.7")
		begin, model := time.Now(), m.model()
		const version = "9.0.7"
		for _, c := range []struct{ name, until string }{
			{"in the download", "ls -d " + appDir + "/.staging-* >/dev/null 2>&1 || [ -e " + appDir + "/" + version + " ]"},
			{"staged", "[ -e " + appDir + "/" + version + " ]"},
			{"swapped", "current " + version},
			{"watching", `grep -q "\"asked\"" ` + appDir + "/trust/state.json"},
		} {
			killed := m.root(waiting + "begin; wait_for '" + c.until + "'; systemctl kill -s KILL " + updaterUnit + "; wait_for ended; systemctl show --value -p Result " + updaterUnit)
			if strings.TrimSpace(killed) != "signal" {
				t.Errorf("%s: the updater ended with %s", c.name, killed)
			}
			m.fleet(interlock + "--version")
			if _, err := m.agent(); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		x.row("updater killed four times", "runs", begin, 0, model)
		begin = time.Now()
		m.root(waiting + "begin")
		m.tool("reboot", m.dir)
		m.says("the control plane serves", "root", "curl -fsS "+planeURL+"/q/health")
		m.root("systemctl stop sh.interlock.updater.timer")
		m.fleet(interlock + "--version")
		m.pass(version)
		if now := m.current(); now != version {
			t.Errorf("current is %s", now)
		}
		m.wantServing(version)
		m.wantReport(upToDate, version)
		x.row("machine restarted meanwhile", "runs", begin, 0, model)
	})
}
