package cli

import (
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"interlock.sh/agent/enrollment"
	"interlock.sh/fault"
	"interlock.sh/installer/service"
)

func (a *app) agentServiceCmd() *cobra.Command {
	return noun("service", "The boot services of this machine's agents",
		a.serviceInstallCmd(), a.serviceStatusCmd(), a.serviceRestartCmd(), a.serviceUninstallCmd(), a.serviceCheckCmd(), a.serviceApplyCmd())
}

func dryRunFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("dry-run", false, "print what would be done, by whom, and change nothing")
}

func (a *app) serviceInstallCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "install", Short: "Have the service manager start an agent with the machine, before login", Args: cobra.NoArgs,
		Long: "Have systemd or launchd run an agent as you, from the start of the machine on, and look for updates.\n" +
			"What it changes is printed first; root is asked for once, and not at all when everything is as it should be.",
	}
	en, dry := enrolledFlags(cmd), dryRunFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		e, err := en.find()
		if err != nil {
			return err
		}
		return a.installService(cmd.Context(), e, *dry)
	}
	return cmd
}

func (a *app) installService(ctx context.Context, e enrollment.Enrollment, dry bool) error {
	host, err := service.ThisHost()
	if err != nil {
		return err
	}
	place, err := findPlace(ctx, e)
	if err != nil {
		return err
	}
	if !dry {
		if err := place.prepare(); err != nil {
			return err
		}
	}
	spec := workerSpec(e, place.app)
	q := service.NewRequest(service.Install, string(e.Home), spec, service.Spec{Kind: service.Updater, App: place.app})
	plan, err := host.Plan(ctx, q)
	if err != nil {
		return err
	}
	a.showPlan(host, plan, place)
	if dry {
		a.say("nothing was changed")
		return nil
	}
	if err := host.MakeMissing(plan); err != nil {
		return err
	}
	if plan.NeedsRoot() {
		if err := a.asRoot(ctx, host, q); err != nil {
			return err
		}
	}
	return a.settle(ctx, host, e, spec, plan.Changed(spec))
}

// workerSpec names the service of an enrollment.
func workerSpec(e enrollment.Enrollment, app string) service.Spec {
	return service.Spec{Kind: service.ModelWorker, Group: e.Group, Role: string(e.Role), App: app}
}

// showPlan prints what will be done and who does it.
func (a *app) showPlan(host *service.Host, plan service.Plan, place place) {
	steps := plan.Steps
	for _, path := range plan.Missing {
		steps = append([]service.Step{{Who: plan.User, Verb: "make", What: path}}, steps...)
	}
	for _, s := range place.steps {
		steps = append([]service.Step{{Who: plan.User, Verb: s[0], What: s[1]}}, steps...)
	}
	if len(steps) == 0 {
		a.say("services: as they should be")
		return
	}
	a.say("services: to be changed by %s, to run as %s", host.Manager(), plan.User)
	for _, s := range steps {
		a.say("  %-10s %-8s %s", s.Who, s.Verb, s.What)
	}
}

func (a *app) serviceStatusCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "Show the services of this machine's agents", Args: cobra.NoArgs}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		home, err := enrollment.DefaultHome()
		if err != nil {
			return err
		}
		host, err := service.ThisHost()
		if err != nil {
			return err
		}
		names, err := host.Installed(string(home))
		if err != nil {
			return err
		}
		states, err := host.States(cmd.Context(), names...)
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(map[string]any{"manager": host.Manager(), "services": some(states)})
		}
		if len(states) == 0 {
			a.empty("no service is installed: `interlock agent service install` does that")
			return nil
		}
		var rows [][]string
		for _, s := range states {
			pid, enabled := "", "no"
			if s.Pid > 0 {
				pid = strconv.Itoa(s.Pid)
			}
			if s.Enabled {
				enabled = "yes"
			}
			rows = append(rows, []string{s.Name, s.Words, enabled, pid, count(s.Restarts)})
		}
		a.table([]string{"SERVICE", "STATE", "AT BOOT", "PID", "RESTARTS"}, rows)
		return nil
	}
	return cmd
}

func (a *app) serviceRestartCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "restart", Short: "Start the service's agent anew after the work in hand; needs no root", Args: cobra.NoArgs}
	en := enrolledFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		e, host, err := onHost(en.find)
		if err != nil {
			return err
		}
		spec := workerSpec(e, "app")
		if !host.Has(spec) {
			return fault.New(fault.NotFound, "no service runs group %s, role %s on this machine", e.Group, e.Role).
				WithHint("interlock agent service install")
		}
		states, err := host.States(cmd.Context(), spec.Name())
		if err != nil {
			return err
		}
		if states[0].Pid == 0 {
			return fault.New(fault.Unavailable, "service %s does not run: %s", spec.Name(), states[0].Words).
				WithHint("interlock agent service install starts it")
		}
		return a.startAnew(cmd.Context(), host, e, spec, states[0].Pid)
	}
	return cmd
}

func (a *app) serviceUninstallCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "uninstall", Short: "Stop the service of an agent and remove it; the enrollment stays", Args: cobra.NoArgs,
	}
	en, dry := enrolledFlags(cmd), dryRunFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		e, host, err := onHost(en.reach)
		if err != nil {
			return err
		}
		q, err := removalOf(host, e)
		if err != nil {
			return err
		}
		return a.removeServices(cmd.Context(), host, q, *dry)
	}
	return cmd
}

// onHost is the enrollment that is meant, on a machine that can have services.
func onHost(find func() (enrollment.Enrollment, error)) (enrollment.Enrollment, *service.Host, error) {
	e, err := find()
	if err != nil {
		return e, nil, err
	}
	host, err := service.ThisHost()
	return e, host, err
}

// removalOf asks for the end of an enrollment's service; with the last one of an app folder its updater goes too.
func removalOf(host *service.Host, e enrollment.Enrollment) (service.Request, error) {
	q := service.NewRequest(service.Remove, string(e.Home), workerSpec(e, "app"))
	names, err := host.Installed(string(e.Home))
	if err != nil {
		return q, err
	}
	for _, name := range names {
		if strings.HasPrefix(name, service.Prefix+string(service.ModelWorker)+".") && name != q.Services[0].Name() {
			idle, err := host.Leftover(string(e.Home), q.Services[0])
			q.Services = append(q.Services, idle...)
			return q, err
		}
	}
	q.All = true
	return q, nil
}

func (a *app) removeServices(ctx context.Context, host *service.Host, q service.Request, dry bool) error {
	plan, err := host.Plan(ctx, q)
	if err != nil {
		return err
	}
	if !plan.NeedsRoot() {
		a.say("services: none is installed")
		return nil
	}
	a.showPlan(host, plan, place{})
	if dry {
		a.say("nothing was changed")
		return nil
	}
	return a.asRoot(ctx, host, q)
}

// serviceCheckCmd is what the install line asks before it enrolls, so that a machine that cannot have a
// service says so while nothing has happened.
func (a *app) serviceCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "Say whether this machine and user can have a boot service; the exit code is 1 when not", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			host, err := service.ThisHost()
			if err != nil {
				return err
			}
			if os.Geteuid() == 0 {
				return fault.New(fault.Invalid, "this is root, and an agent runs as an ordinary user").
					WithHint("do this as that user, without sudo: root is asked for where it is needed; or add --no-service")
			}
			way, err := service.ThisDesk(a.atTerminal()).Elevate()
			if err != nil {
				return err
			}
			a.say("%s can start an agent with this machine; root would be asked for by %s", host.Manager(), way.Name)
			return nil
		},
	}
}
