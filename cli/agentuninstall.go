package cli

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"interlock.sh/agent"
	"interlock.sh/agent/enrollment"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/installer/service"
	"interlock.sh/installer/uninstall"
	"interlock.sh/internal/ownersocket"
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

// ownerOf is the user that a home's agents and services belong to: root may be asked to remove those of another.
// there is false where the folder is gone, so that nobody can tell.
func ownerOf(home enrollment.Home) (uid int, there bool) {
	if uid, ok := ownersocket.Owner(string(home)); ok {
		return uid, true
	}
	return os.Geteuid(), false
}

// userFolders are the home folder of a user, and that of their settings. The environment is believed where it is
// that user's.
func userFolders(uid int) (home, config string, ok bool) {
	if uid != os.Geteuid() {
		u, err := user.LookupId(strconv.Itoa(uid))
		if err != nil {
			return "", "", false
		}
		return u.HomeDir, filepath.Join(u.HomeDir, ".config"), true
	}
	home, err := os.UserHomeDir()
	if config = os.Getenv("XDG_CONFIG_HOME"); !filepath.IsAbs(config) {
		config = filepath.Join(home, ".config")
	}
	return home, config, err == nil
}

// thisMachine is where the agents of a home have their things.
func thisMachine(home enrollment.Home) uninstall.Machine {
	uid, _ := ownerOf(home)
	m := uninstall.Machine{Home: string(home), Sockets: socketsOutside(home, uid)}
	if user, config, ok := userFolders(uid); ok {
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
func socketsOutside(home enrollment.Home, uid int) []string {
	var out []string
	add := func(group string, role fleet.Role) {
		if path, outside := home.SocketPathOf(uid, group, role); outside {
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
	r.agents, err = r.home.Folders()
	return err
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
	plan, host, q, err := r.plan(ctx, dry)
	if err != nil {
		return err
	}
	if len(r.list.Goes) == 0 && !plan.NeedsRoot() {
		switch _, there := ownerOf(r.home); {
		case !there && os.Geteuid() == 0:
			a.say("nothing of Interlock's agent is in %s; whose services to remove, only its owner could tell: do this as the agent's user, without sudo", r.home)
		case !there && dry:
			a.say("%s is gone; whether services are left, only an uninstall that makes it anew can tell: do this without --dry-run, it asks first", r.home)
		default:
			a.say("nothing of Interlock's agent is on this machine")
		}
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
func (r *removal) plan(ctx context.Context, dry bool) (service.Plan, *service.Host, service.Request, error) {
	var q service.Request
	host, err := service.ThisHost()
	if err != nil {
		return service.Plan{}, nil, q, nil //nolint:nilerr // no service manager, no service
	}
	if ask, err := mayHaveServices(r.home, os.Geteuid(), dry); err != nil || !ask {
		return service.Plan{}, nil, q, err
	}
	if q, err = r.services(host); err != nil {
		return service.Plan{}, nil, q, err
	}
	p, err := host.Plan(ctx, q)
	return p, host, q, err
}

// mayHaveServices is false where an uninstall need not look for services. Whose they are is told by the owner of
// the home folder. Where somebody removed it already, the user that uninstalls makes it anew; root does not, since
// that would make the services root's, and a dry run makes nothing.
func mayHaveServices(home enrollment.Home, euid int, dry bool) (bool, error) {
	uid, there := ownerOf(home)
	switch {
	case there:
		return uid != 0, nil // an agent that root runs has none
	case euid == 0, dry:
		return false, nil
	}
	if err := os.MkdirAll(string(home), 0o700); err != nil {
		return false, fmt.Errorf("make the home folder: %w", err)
	}
	return true, nil
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
