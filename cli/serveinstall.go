package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"interlock.sh/fault"
	"interlock.sh/installer/controlplane"
	"interlock.sh/installer/service"
)

// servePlace is where a control plane is installed on a machine.
type servePlace struct {
	user, data, backupAt string
	keep                 int
}

func (p *servePlace) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.user, "user", "interlock", "the system user that the control plane runs as; it is made when it is missing")
	cmd.Flags().StringVar(&p.data, "data", "/var/lib/interlock", "folder of the database and the files")
}

// serveWithin is how long a control plane may take to serve after it was started, its migrations included.
const serveWithin = 2 * time.Minute

func (a *app) serveInstallCmd(serve *cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: "install", Short: "Install the control plane as a service of this machine, with a daily backup", Args: cobra.NoArgs,
		Long: "Install this program as the control plane of this machine: a service that starts with it, as a system\n" +
			"user of its own, and a daily backup. What is done is printed first. Every option of `interlock serve` is\n" +
			"taken and passed on. Doing it again with other options changes the service.",
		Example: "  interlock serve install --listen :443 --public-url https://fleet.example.com --tls-cert cert.pem --tls-key key.pem",
	}
	var place servePlace
	place.flags(cmd)
	cmd.Flags().StringVar(&place.backupAt, "backup-at", "03:30", "when the daily backup is made, HH:MM")
	cmd.Flags().IntVar(&place.keep, "keep", 14, "how many backups stay")
	serve.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "data" && f.Name != "help" {
			cmd.Flags().AddFlag(f)
		}
	})
	dry := dryRunFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		i := installation{app: a, place: place}
		var err error
		if i.args, err = passedOn(cmd, serve); err != nil {
			return err
		}
		if err := i.plan(cmd.Context()); err != nil {
			return err
		}
		if !*dry && os.Geteuid() != 0 {
			return a.again(cmd.Context())
		}
		i.show()
		if *dry {
			a.say("nothing was changed")
			return nil
		}
		return i.run(cmd.Context())
	}
	return cmd
}

// passedOn are the options of serve that were given, as its service is started with them. Paths become
// whole: a service starts in another folder.
func passedOn(cmd, serve *cobra.Command) (out []string, err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "insecure-http" && (f.Name == "data" || serve.LocalFlags().Lookup(f.Name) != f) {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			if slices.Contains([]string{"tls-cert", "tls-key", "assets"}, f.Name) {
				abs, absErr := filepath.Abs(v)
				if absErr == nil {
					_, absErr = os.Stat(abs)
				}
				err = errors.Join(err, absErr)
				v = abs
			}
			out = append(out, "--"+f.Name+"="+v)
		}
	})
	return out, err
}

// again runs the same command line as root, by sudo on this terminal.
func (a *app) again(ctx context.Context) error {
	way, err := service.ThisDesk(a.atTerminal()).Elevate()
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	c := way.Command(ctx, program, os.Args[1:])
	if c == nil {
		return fault.New(fault.ScopeDenied, "the services of a machine are root's").WithHint("do the same as root, by sudo")
	}
	a.note("this needs root, by %s", way.Name)
	c.Stdin, c.Stdout, c.Stderr = a.In, a.Out, a.Err
	if err := c.Run(); err != nil {
		return &exit{ExitError} // it has said why
	}
	return nil
}

// installation is one run of serve install.
type installation struct {
	app      *app
	place    servePlace
	args     []string
	host     *service.Host
	program  string // this one
	name     string // of its folder
	newUser  bool
	newData  bool
	services service.Plan
}

func (i *installation) plan(ctx context.Context) (err error) {
	if i.host, err = service.ThisHost(); err != nil {
		return err
	}
	if i.program, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if i.name, err = controlplane.Folder.Name(i.program, Version); err != nil {
		return err
	}
	if i.place.data, err = filepath.Abs(i.place.data); err != nil {
		return err
	}
	spec := service.Serve{
		Program: controlplane.Folder.Program(), User: i.place.user, Data: i.place.data, Args: i.args, LowPorts: true,
		BackupAt: i.place.backupAt, Keep: i.place.keep,
	}
	if err := spec.Check(); err != nil {
		return err
	}
	owner, err := controlplane.Owner(i.place.data)
	switch {
	case errors.Is(err, os.ErrNotExist):
		i.newData = true
	case err != nil:
		return err
	case owner != i.place.user:
		return fault.New(fault.Conflict, "%s belongs to %s, and the control plane would run as %s", i.place.data, owner, i.place.user).
			WithField("user").WithHint("give --user %s, or another --data", owner)
	}
	i.newUser = !controlplane.HasUser(i.place.user)
	serve, backup := service.ServeUnits(spec)
	i.services, err = i.host.PlanUnits(ctx, serve, backup)
	return err
}

func (i *installation) show() {
	a := i.app
	a.say("control plane: to be installed with %s, to run as %s", i.host.Manager(), i.place.user)
	step := func(verb, what string) { a.say("  %-10s %-8s %s", "root", verb, what) }
	if i.newUser {
		step("run", strings.Join(controlplane.AddUser(i.place.user, i.place.data), " "))
	}
	if i.newData {
		step("make", i.place.data)
	}
	if controlplane.Folder.Current() != i.name {
		step("copy", i.program+" to "+controlplane.Folder.Path(i.name))
		step("link", filepath.Dir(controlplane.Folder.Program())+" to "+i.name)
	}
	for _, s := range i.services.Steps {
		step(s.Verb, s.What)
	}
}

func (i *installation) run(ctx context.Context) error {
	before := controlplane.Folder.Current()
	if before != "" && before != i.name {
		return fault.New(fault.Conflict, "another version of the control plane is installed: %s", before).
			WithHint("interlock serve upgrade --program %s", i.program)
	}
	if err := controlplane.Prepare(ctx, i.place.user, i.place.data); err != nil {
		return err
	}
	if before == "" {
		if err := controlplane.Folder.Put(i.program, i.name); err != nil {
			return err
		}
		if err := controlplane.Folder.Point(i.name); err != nil {
			return err
		}
	}
	ops := operations{i.app, i.host, i.place}
	_, runs := ops.running(ctx)
	if err := i.host.Do(ctx, i.services); err != nil {
		return err
	}
	if runs == nil && i.services.NeedsRoot() { // it runs with its options of before
		if err := errors.Join(i.host.Stop(ctx, service.ServeName), i.host.Start(ctx, service.ServeName)); err != nil {
			return err
		}
	}
	err := ops.await(ctx)
	if err == nil {
		i.app.say("the control plane serves, and %s is backed up daily at %s", i.place.data, i.place.backupAt)
		i.app.note("the owner token of a first start is in its log: journalctl -u %s; a new one: sudo -u %s %s admin owner-token --data %s",
			service.ServeName, i.place.user, controlplane.Folder.Program(), i.place.data)
		return nil
	}
	if before == "" { // a first install leaves nothing that fails for ever
		err = errors.Join(err, i.undo(context.WithoutCancel(ctx)))
	}
	return fault.Wrap(err, fault.Unavailable, "the control plane does not serve: %v", err).
		WithHint("its log says why: journalctl -u %s", service.ServeName)
}

func (i *installation) undo(ctx context.Context) error {
	plan, err := i.host.PlanEnd(ctx, i.place.user, service.ServeName, service.BackupName)
	if err == nil {
		err = i.host.Do(ctx, plan)
	}
	return errors.Join(err, os.RemoveAll(string(controlplane.Folder)))
}
