package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"interlock.sh/fault"
	"interlock.sh/installer/controlplane"
	"interlock.sh/installer/service"
	"interlock.sh/server"
)

// operations are what an install and an upgrade do to a control plane that is installed.
type operations struct {
	app   *app
	host  *service.Host
	place servePlace
}

// asUser runs a verb of the installed program as the control plane's user: what it makes in the data folder
// must be that user's.
func (o operations) asUser(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, controlplane.Folder.Program(), args...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &problems, "/"
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + o.place.data}
	if err := controlplane.RunAs(cmd, o.place.user); err != nil {
		return "", err
	}
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(args[:2], " "), err, strings.TrimPrefix(strings.TrimSpace(problems.String()), "interlock: "))
	}
	return strings.TrimSpace(out.String()), nil
}

func (o operations) running(ctx context.Context) (string, error) {
	return o.asUser(ctx, "serve", "running", "--data", o.place.data)
}

func (o operations) restarts(ctx context.Context) (int, error) {
	states, err := o.host.States(ctx, service.ServeName)
	if err != nil {
		return 0, err
	}
	return states[0].Restarts, nil
}

// await returns when the control plane serves.
func (o operations) await(ctx context.Context) error {
	return o.upgrade().Await(ctx, Version)
}

func (o operations) upgrade() controlplane.Upgrade {
	return controlplane.Upgrade{
		Programs: controlplane.Folder, Clock: o.app.clock, Within: serveWithin,
		Say:   func(format string, args ...any) { o.app.note(format, args...) },
		Stop:  func(ctx context.Context) error { return o.host.Stop(ctx, service.ServeName) },
		Start: func(ctx context.Context) error { return o.host.Start(ctx, service.ServeName) },
		Copy: func(ctx context.Context) (string, error) {
			out, err := o.asUser(ctx, "serve", "backup", "--data", o.place.data, "--keep", "1000", "--json")
			if err != nil {
				return "", err
			}
			var r server.BackupReport
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				return "", fmt.Errorf("read what the backup said: %w", err)
			}
			return r.Dir, nil
		},
		Restore: func(ctx context.Context, copied string) error {
			_, err := o.asUser(ctx, "serve", "restore", "--data", o.place.data, "--from", copied, "--yes")
			return err
		},
		Running: o.running, Restarts: o.restarts,
	}
}

func (a *app) serveUpgradeCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "upgrade", Short: "Give the installed control plane another program, and go back when that does not serve", Args: cobra.NoArgs,
		Long: "Drain the control plane, copy its database, start the other program, and wait until it serves. When it\n" +
			"does not, the program before starts again; the database is put back only where that cannot read it.",
	}
	var place servePlace
	place.flags(cmd)
	program := cmd.Flags().String("program", "", "a build of interlock; this program when it is left out")
	within := cmd.Flags().Duration("within", serveWithin, "how long it may take to serve, its migrations included")
	dry := dryRunFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		host, err := service.ThisHost()
		if err != nil {
			return err
		}
		file, err := orSelf(*program)
		if err != nil {
			return err
		}
		version, err := versionOf(cmd.Context(), file)
		if err != nil {
			return err
		}
		name, err := controlplane.Folder.Name(file, version)
		if err != nil {
			return err
		}
		now := controlplane.Folder.Current()
		switch now {
		case "":
			return fault.New(fault.NotFound, "no control plane is installed on this machine").WithHint("interlock serve install")
		case name:
			a.say("the control plane is %s already", name)
			return nil
		}
		a.say("control plane: from %s to %s, of %s in %s", now, name, place.user, place.data)
		if *dry {
			a.say("nothing was changed")
			return nil
		}
		if os.Geteuid() != 0 {
			return a.again(cmd.Context())
		}
		if err := controlplane.Folder.Put(file, name); err != nil {
			return err
		}
		u := operations{a, host, place}.upgrade()
		u.Within = *within
		if err := u.Run(cmd.Context(), name, version); err != nil {
			return err
		}
		a.say("the control plane is %s", name)
		return nil
	}
	return cmd
}

func orSelf(program string) (string, error) {
	if program != "" {
		return program, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	return self, nil
}

const versionWithin = 20 * time.Second

// versionOf asks a program what it is, before anything depends on it.
func versionOf(ctx context.Context, file string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionWithin)
	defer cancel()
	out, err := exec.CommandContext(ctx, file, "--version").Output()
	words := strings.Fields(string(out)) // interlock VERSION · GO
	if err != nil || len(words) < 2 || words[0] != "interlock" {
		return "", fault.New(fault.Invalid, "%s does not say that it is a version of interlock (%v)", file, err).WithField("program").
			WithHint("name a build of interlock for this machine")
	}
	return words[1], nil
}

func (a *app) serveUninstallCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "uninstall", Short: "Stop the installed control plane and remove it; data and backups stay", Args: cobra.NoArgs,
	}
	var place servePlace
	place.flags(cmd)
	dry, yes := dryRunFlag(cmd), yesFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		host, err := service.ThisHost()
		if err != nil {
			return err
		}
		plan, err := host.PlanEnd(cmd.Context(), place.user, service.ServeName, service.BackupName)
		if err != nil {
			return err
		}
		_, missing := os.Stat(string(controlplane.Folder))
		if !plan.NeedsRoot() && missing != nil {
			a.say("no control plane of user %s is installed on this machine", place.user)
			return nil
		}
		if !*dry && os.Geteuid() != 0 {
			return a.again(cmd.Context())
		}
		for _, s := range plan.Steps {
			a.say("  %-10s %-8s %s", s.Who, s.Verb, s.What)
		}
		a.say("  %-10s %-8s %s", "root", "remove", string(controlplane.Folder))
		a.say("stays: %s (database, files, backups), and the user %s", place.data, place.user)
		if *dry {
			a.say("nothing was changed")
			return nil
		}
		if err := a.confirm(cmd.Context(), *yes, "Remove the control plane from this machine?"); err != nil {
			return err
		}
		if err := host.Do(cmd.Context(), plan); err != nil {
			return err
		}
		if err := os.RemoveAll(string(controlplane.Folder)); err != nil {
			return fmt.Errorf("remove the programs: %w", err)
		}
		a.say("the control plane is removed; %s was not touched", place.data)
		return nil
	}
	return cmd
}
