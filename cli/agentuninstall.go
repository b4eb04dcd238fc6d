package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"interlock.sh/agent"
	"interlock.sh/agent/enrollment"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/installer/service"
	"interlock.sh/installer/uninstall"
)

func (a *app) agentUninstallCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "uninstall", Short: "Remove an enrollment from this machine, or everything with --all", Args: cobra.NoArgs,
		Long: "Remove an enrollment from this machine: its service, credential, settings and logs.\n" +
			"With --all everything goes: every service, group, credential and program, and Nightshift.\n" +
			"Shared model files stay, and so does what the control plane knows. The list is printed first.",
	}
	en, dry, yes := enrolledFlags(cmd), dryRunFlag(cmd), yesFlag(cmd)
	all := cmd.Flags().Bool("all", false, "the whole machine: every group and role, the programs and Nightshift")
	cmd.MarkFlagsMutuallyExclusive("all", "group")
	cmd.MarkFlagsMutuallyExclusive("all", "role")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		home, err := enrollment.DefaultHome()
		if err != nil {
			return err
		}
		r := removal{app: a, home: home, machine: thisMachine(home)}
		if *all {
			err = r.wholeMachine()
		} else {
			err = r.one(en)
		}
		if err != nil {
			return err
		}
		return r.run(cmd.Context(), *dry, *yes)
	}
	return cmd
}

// thisMachine is where this user's agent has its things.
func thisMachine(home enrollment.Home) uninstall.Machine {
	m := uninstall.Machine{Home: string(home), Sockets: socketsOutside(home)}
	if user, err := os.UserHomeDir(); err == nil {
		config := os.Getenv("XDG_CONFIG_HOME")
		if !filepath.IsAbs(config) {
			config = filepath.Join(user, ".config")
		}
		const name = "sh.interlock.nightshift"
		m.Desktop = []string{
			filepath.Join(config, "autostart", name+".desktop"),
			filepath.Join(user, "Library", "LaunchAgents", name+".plist"), filepath.Join(user, "Applications", "Nightshift.app"),
		}
	}
	return m
}

// socketsOutside are the sockets of this home, and their locks, that its path was too long for. Another home of
// the same user may have its own in the same folder.
func socketsOutside(home enrollment.Home) []string {
	var out []string
	add := func(group string, role fleet.Role) {
		if path, outside := home.SocketPath(group, role); outside {
			out = append(out, path, path+".lock")
		}
	}
	add(enrollment.BarSocket())
	groups, _ := os.ReadDir(filepath.Join(string(home), "groups")) // where none can be read, none has a socket
	for _, g := range groups {
		add(g.Name(), fleet.RoleClient)
		add(g.Name(), fleet.RoleTrainer)
	}
	return out
}

// removal is one uninstall.
type removal struct {
	app      *app
	home     enrollment.Home
	machine  uninstall.Machine
	list     uninstall.List
	question string
	services func(*service.Host) (service.Request, error)
	agents   []enrollment.Enrollment // whose agents may run without a service
}

func (r *removal) wholeMachine() (err error) {
	if r.list, err = r.machine.All(); err != nil {
		return err
	}
	r.question = "Uninstall Interlock from this machine?"
	r.services = func(*service.Host) (service.Request, error) {
		q := service.NewRequest(service.Remove, string(r.home))
		q.All = true
		return q, nil
	}
	// By their folders, so that one with a damaged file is ended too.
	dirs, err := filepath.Glob(filepath.Join(string(r.home), "groups", "*", "roles", "*"))
	if err != nil {
		return fmt.Errorf("list enrollments: %w", err)
	}
	for _, dir := range dirs {
		group := filepath.Base(filepath.Dir(filepath.Dir(dir)))
		r.agents = append(r.agents, enrollment.Enrollment{Home: r.home, Group: group, Role: fleet.Role(filepath.Base(dir))})
	}
	return nil
}

func (r *removal) one(en *enrolled) error {
	e, err := en.reach()
	if err != nil {
		return err
	}
	if r.list, err = r.machine.Role(e.Group, string(e.Role)); err != nil {
		return err
	}
	r.question = fmt.Sprintf("Remove group %s, role %s from this machine?", e.GroupName, e.Role)
	r.services = func(h *service.Host) (service.Request, error) { return removalOf(h, e) }
	r.agents = []enrollment.Enrollment{e}
	return nil
}

// run lists, asks, stops and removes, and lists what is left.
func (r *removal) run(ctx context.Context, dry, yes bool) error {
	a := r.app
	plan, host, q, err := r.plan(ctx)
	if err != nil {
		return err
	}
	if len(r.list.Goes) == 0 && !plan.NeedsRoot() {
		a.say("nothing of Interlock's agent is on this machine")
		return nil
	}
	if plan.NeedsRoot() {
		a.showPlan(host, plan, place{})
	}
	a.showItems("goes:", r.list.Goes)
	a.showItems("stays:", r.list.Stays)
	if dry {
		a.say("nothing was changed")
		return nil
	}
	if err := a.confirm(ctx, yes, r.question); err != nil {
		return err
	}
	if plan.NeedsRoot() {
		if err := a.asRoot(ctx, host, q); err != nil {
			a.note("nothing was removed: the services and all files are there still")
			return err
		}
	}
	for _, e := range r.agents {
		if _, runs := agent.Running(e); !runs {
			continue
		}
		if err := agent.StopDetached(ctx, e); err != nil {
			return fmt.Errorf("the services are gone, the files are there still: %w", err)
		}
	}
	return r.finish()
}

// plan is what has to be done to services; nothing on a machine that cannot have any.
func (r *removal) plan(ctx context.Context) (service.Plan, *service.Host, service.Request, error) {
	var q service.Request
	host, err := service.ThisHost()
	if err != nil {
		return service.Plan{}, nil, q, nil //nolint:nilerr // no service manager, no service
	}
	// Whose services they are is told by the owner of the folder, which somebody may have removed already.
	if err := os.MkdirAll(string(r.home), 0o700); err != nil {
		return service.Plan{}, nil, q, fmt.Errorf("make the home folder: %w", err)
	}
	if os.Geteuid() == 0 { // an agent that root runs has no service
		return service.Plan{}, nil, q, nil
	}
	if q, err = r.services(host); err != nil {
		return service.Plan{}, nil, q, err
	}
	p, err := host.Plan(ctx, q)
	return p, host, q, err
}

func (r *removal) finish() error {
	a := r.app
	left := r.list.Remove()
	removed := len(r.list.Goes) - len(left)
	a.say("removed %d of %d; what stays was not touched", removed, len(r.list.Goes))
	if len(left) > 0 {
		for _, l := range left {
			a.note("left: %s (%s)", clean(l.Path), clean(l.Why))
		}
		return fault.New(fault.Conflict, "%d things could not be removed", len(left)).WithHint("remove them by hand, or run this again")
	}
	a.note("the control plane shows this machine as offline; revoke its credential there when it is no longer trusted")
	a.note("to install again, a fresh key is needed: interlock models key rotate client --group <group>")
	return nil
}

func (a *app) showItems(title string, items []uninstall.Item) {
	if len(items) == 0 {
		return
	}
	a.say("%s", title)
	for _, i := range items {
		a.say("  %s  (%s)", i.Path, i.What)
	}
}
