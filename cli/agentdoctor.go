package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"interlock.sh/agent"
	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/localapi"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/installer/service"
	"interlock.sh/updater"
)

// staleUpdates is for how long nobody may have looked for updates: the updater does three times an hour.
const staleUpdates = 24 * time.Hour

func (a *app) agentDoctorCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check this machine: program, service, permissions, control plane, clock, disk, model servers, files", Args: cobra.NoArgs,
		Long: "Check everything that has to hold for this machine to work, and say what to do where it does not. It works\n" +
			"with the agent down. The exit code is 1 when a check fails; warnings do not count.",
	}
	en, asJSON := enrolledFlags(cmd), jsonFlag(cmd)
	deep := cmd.Flags().Bool("deep", false, "read every model file whole and compare its SHA-256")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		door, e, err := en.door()
		if err != nil {
			return err
		}
		d := thisDoctor(cmd.Context(), e, a.clock.Now())
		d.running = func(ctx context.Context) ([]localapi.Check, error) { return door.Doctor(ctx, *deep) }
		checks := d.checks(cmd.Context())
		if _, damage := e.Home.Load(e.Group, e.Role); damage != nil { // its agent may run all the same, until it is started anew
			checks = slices.Insert(checks, 0, failedCheck("enrollment", damage))
		}
		return a.showChecks(checks, *asJSON)
	}
	return cmd
}

// doctor joins what is checked of a machine: by its agent, of its program, and of its service.
type doctor struct {
	running func(context.Context) ([]localapi.Check, error) // by the agent; the error says that it does not answer
	resting func(context.Context) []localapi.Check          // what is checked without it
	program func() (updater.Verified, error)
	rooted  func() bool // a root of trust was pinned, and none is built in
	report  func() *fleet.UpdateReport
	service func(context.Context) (service.State, error)
	now     time.Time
}

// placeWithin bounds what a control plane may take to tell which app folder is for it.
const placeWithin = 10 * time.Second

// thisDoctor is the doctor of an enrollment of this machine.
func thisDoctor(ctx context.Context, e enrollment.Enrollment, now time.Time) doctor {
	app := filepath.Join(string(e.Home), "app")
	ctx, cancel := context.WithTimeout(ctx, placeWithin)
	defer cancel()
	if p, err := findPlace(ctx, e); err == nil {
		if _, err := os.Lstat(filepath.Join(string(e.Home), p.app, "current")); err == nil {
			app = filepath.Join(string(e.Home), p.app)
		}
	}
	return doctor{
		resting: func(ctx context.Context) []localapi.Check { return agent.Doctor(ctx, e, Version) },
		program: func() (updater.Verified, error) {
			if _, err := os.Lstat(filepath.Join(app, "current")); errors.Is(err, os.ErrNotExist) {
				return updater.Verified{Detail: "it stands outside the agent's folder: whoever put it there keeps it up to date"}, nil
			}
			return updater.VerifyInstalled(app, "interlock", runtime.GOOS, runtime.GOARCH)
		},
		rooted: func() bool {
			_, err := os.Stat(filepath.Join(app, "trust", "root.json"))
			return err == nil && updater.BuiltIn() == nil
		},
		report: func() *fleet.UpdateReport { return updater.LastReport(app) },
		service: func(ctx context.Context) (service.State, error) {
			host, err := service.ThisHost()
			if err != nil {
				return service.State{}, err
			}
			spec := workerSpec(e, filepath.Base(app))
			if !host.Has(spec) {
				return service.State{Name: spec.Name()}, nil
			}
			states, err := host.States(ctx, spec.Name())
			if err != nil {
				return service.State{}, err
			}
			return states[0], nil
		},
		now: now,
	}
}

// checks are all lines, the agent's own first.
func (d doctor) checks(ctx context.Context) []localapi.Check {
	checks, err := d.running(ctx)
	up := err == nil
	if !up {
		down := failedCheck("agent", err)
		if down.Fix == "" {
			down.Fix = "interlock agent stop, then interlock agent start; its log: interlock agent logs"
		}
		checks = append([]localapi.Check{down}, d.resting(ctx)...)
	}
	return slices.Insert(checks, min(1, len(checks)), slices.Concat(d.checkProgram(), []localapi.Check{d.checkUpdates(), d.checkService(ctx, up)})...)
}

// checkProgram compares what runs with what was signed, and says whose signatures count.
func (d doctor) checkProgram() []localapi.Check {
	v, err := d.program()
	program := localapi.Check{Name: "program", OK: true, Detail: v.Detail}
	if err != nil {
		program = failedCheck("program", err)
		if program.Fix == "" {
			program.Fix = "run the install line again"
		}
	}
	root := localapi.Check{Name: "root of trust", OK: true, Detail: "built into the program"}
	switch {
	case d.rooted():
		root.Detail = "pinned on first use, when this machine was enrolled; releases signed under another one are refused"
	case v.Pinned || v.Version == "":
		root.Detail = "none yet: nothing is updated by itself until the control plane offers signed releases"
	}
	return []localapi.Check{program, root}
}

// checkUpdates tells the newest news of the updater.
func (d doctor) checkUpdates() localapi.Check {
	const name = "updates"
	r := d.report()
	if r == nil {
		return localapi.Check{Name: name, OK: true, Detail: "nobody has looked for updates yet"}
	}
	words := r.State
	if r.Version != "" {
		words += ", version " + r.Version
	}
	if r.Why != "" {
		words += ": " + r.Why
	}
	age := d.now.Sub(r.At)
	switch {
	case r.State == "none": // as after a first install: nothing is broken
		return localapi.Check{
			Name: name, OK: true, Warn: true, Detail: "the control plane offers no signed releases yet: nothing is updated by itself",
			Fix: "whoever runs it publishes them (interlock release keys init, docs/RELEASES.md); until then a newer program comes by the install line",
		}
	case r.State == "stopped":
		return localapi.Check{Name: name, Detail: words, Fix: "what runs goes on; interlock agent update --check tries again, and whoever publishes releases renews them: interlock release refresh"}
	case r.State == "reverted":
		return localapi.Check{Name: name, OK: true, Warn: true, Detail: words, Fix: "the version before it runs; tell whoever publishes releases, a newer version is taken by itself"}
	case age > staleUpdates:
		return localapi.Check{Name: name, OK: true, Warn: true, Detail: fmt.Sprintf("%s, and nobody has looked for %d h", words, int(age.Hours())), Fix: "interlock agent update --check; interlock agent service install brings the timer back"}
	}
	return localapi.Check{Name: name, OK: true, Detail: words}
}

// checkService says whether the agent comes back by itself. A machine without a service is no broken one as
// long as somebody starts the agent.
func (d doctor) checkService(ctx context.Context, up bool) localapi.Check {
	const name, install = "service", "interlock agent service install"
	st, err := d.service(ctx)
	switch {
	case err != nil:
		e := fault.Of(err)
		detail := e.Message
		if e.Code == fault.Internal {
			detail = err.Error()
		}
		return localapi.Check{
			Name: name, OK: true, Warn: true, Detail: "the agent does not start with the machine: " + detail,
			Fix: "start it by other means after each boot: interlock agent start",
		}
	case !st.Installed:
		return localapi.Check{Name: name, OK: up, Warn: up, Detail: "no service is installed: the agent does not start with the machine", Fix: install}
	case !st.Active:
		look := "interlock agent logs"
		if runtime.GOOS == "linux" {
			look += ", or journalctl -u " + st.Name
		}
		return localapi.Check{
			Name: name, Detail: fmt.Sprintf("%s is %s", st.Name, st.Words),
			Fix: "see why: " + look + "; then interlock agent service restart",
		}
	case !st.Enabled:
		return localapi.Check{Name: name, OK: true, Warn: true, Detail: st.Name + " runs, and does not start with the machine", Fix: install}
	}
	return localapi.Check{Name: name, OK: true, Detail: fmt.Sprintf("%s is %s and starts with the machine", st.Name, st.Words)}
}

// showChecks prints what a doctor found; the exit code is 1 when anything is wrong.
func (a *app) showChecks(checks []localapi.Check, asJSON bool) error {
	if asJSON {
		if err := a.printJSON(map[string]any{"checks": some(checks)}); err != nil {
			return err
		}
	} else {
		a.checkTable(checks)
	}
	if slices.ContainsFunc(checks, func(c localapi.Check) bool { return !c.OK }) {
		return &exit{ExitError}
	}
	return nil
}

func (a *app) checkTable(checks []localapi.Check) {
	for _, c := range checks {
		mark := "ok  "
		switch {
		case !c.OK:
			mark = "FAIL"
		case c.Warn:
			mark = "warn"
		}
		a.say("%s  %-20s  %s", mark, clean(c.Name), clean(c.Detail))
		if c.Fix != "" {
			a.say("      %-20s  → %s", "", clean(c.Fix))
		}
	}
}
