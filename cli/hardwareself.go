package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"interlock.sh/access"
	"interlock.sh/agent/hardware"
	"interlock.sh/agent/hostfacts"
	"interlock.sh/agent/localapi"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet/build"
	"interlock.sh/installer/service"
	"interlock.sh/internal/ident"
	"interlock.sh/updater"
)

func (a *app) hardwareStatusCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "Show the worker of this machine", Args: cobra.NoArgs}
	asJSON := jsonFlag(cmd)
	cmd.RunE = a.onHardware(func(cmd *cobra.Command, home hardware.Home) error {
		st, err := home.State()
		if err != nil {
			return err
		}
		boot := "no boot service"
		if host, err := service.ThisHost(); err == nil {
			if states, err := host.States(cmd.Context(), taskWorker.Name()); err == nil && len(states) == 1 && states[0].Installed {
				boot = states[0].Name + ": " + states[0].Words
			}
		}
		if *asJSON {
			return a.printJSON(struct {
				hardware.State
				Service string `json:"service"`
			}{st, boot})
		}
		state := st.Words
		if st.Running && !st.Ready {
			state = "not ready: " + st.Words
		}
		pid := ""
		if st.Running {
			pid = strconv.Itoa(st.Process.PID)
		}
		server := st.Server
		if server == "" && st.ModelPid > 0 {
			server = "llama-server, pid " + strconv.Itoa(st.ModelPid)
		}
		a.facts("state", state, "worker", st.Worker, "model", st.Alias, "server", server, "version", st.Version, "pid", pid,
			"registered", a.ago(st.Seen), "service", boot, "settings", home.Env(), "log", home.Log())
		return nil
	})
	return cmd
}

func (a *app) hardwareDoctorCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "doctor", Short: "Check the worker: release, permissions, model boundary, control plane, service", Args: cobra.NoArgs}
	asJSON := jsonFlag(cmd)
	cmd.RunE = a.onHardware(func(cmd *cobra.Command, home hardware.Home) error {
		checks := []localapi.Check{checkRelease(home)}
		checks = append(checks, home.Doctor(cmd.Context(), Version)...)
		return a.showChecks(append(checks, checkBootService(cmd.Context(), home)), *asJSON)
	})
	return cmd
}

// checkRelease: the program is the one that was signed.
func checkRelease(home hardware.Home) localapi.Check {
	c := localapi.Check{Name: "release"}
	v, err := updater.VerifyInstalled(home.App(), build.Interlock, runtime.GOOS, runtime.GOARCH)
	if err != nil {
		f := fault.Of(err)
		c.Detail, c.Fix = f.Message, f.Hint
		return c
	}
	c.OK, c.Detail = true, v.Version+": "+v.Detail
	return c
}

func checkBootService(ctx context.Context, home hardware.Home) localapi.Check {
	c := localapi.Check{Name: "service"}
	host, err := service.ThisHost()
	if err != nil { // it cannot have one: that is known since the install
		c.OK, c.Warn, c.Detail, c.Fix = true, true, fault.Of(err).Message, "after a restart of the machine: interlock hardware start"
		return c
	}
	states, err := host.States(ctx, taskWorker.Name())
	if err != nil {
		c.Detail, c.Fix = "its state cannot be read: "+err.Error(), "ask the service manager for "+taskWorker.Name()
		return c
	}
	st := states[0]
	if worker, err := home.State(); err == nil && worker.Running && !st.Installed {
		c.OK, c.Warn, c.Detail, c.Fix = true, true, "none is installed: the worker runs until the machine restarts", "interlock hardware service install"
		return c
	}
	c.OK, c.Detail = st.Installed && st.Enabled && st.Active, st.Name+": "+st.Words
	if !c.OK {
		c.Fix = "interlock hardware service install"
	}
	return c
}

func (a *app) hardwareServiceCmd() *cobra.Command {
	install := &cobra.Command{Use: "install", Short: "Have the service manager start the worker with the machine, before login", Args: cobra.NoArgs}
	dryInstall := dryRunFlag(install)
	install.RunE = a.onHardware(func(cmd *cobra.Command, home hardware.Home) error {
		if _, err := home.Settings(); err != nil {
			return err
		}
		before, err := home.State()
		if err != nil {
			return err
		}
		served := a.hardwareService()
		if err := a.changeService(cmd.Context(), home, service.Install, *dryInstall); err != nil || *dryInstall {
			return err
		}
		if !served { // one that was started by hand makes way
			if err := home.Stop(cmd.Context(), a.clock, stopHardwareWithin); err != nil {
				return err
			}
		}
		st, err := home.State()
		if err == nil && served && st.Process == before.Process && st.Running {
			a.say("the worker goes on (pid %d): %s", st.Process.PID, clean(st.Words))
			return nil
		}
		if st, err = home.Await(cmd.Context(), a.clock, before.Process, readyWithin); err != nil {
			return err
		}
		if !st.Ready {
			a.note("the worker is not ready yet: %s; look: interlock hardware doctor", clean(st.Words))
			return nil
		}
		a.say("the worker is ready (pid %d): model %s", st.Process.PID, clean(st.Alias))
		return nil
	})
	remove := &cobra.Command{Use: "uninstall", Short: "Stop the boot service of the worker and take it away", Args: cobra.NoArgs}
	dryRemove := dryRunFlag(remove)
	remove.RunE = a.onHardware(func(cmd *cobra.Command, home hardware.Home) error {
		if !a.hardwareService() {
			a.say("there is no boot service of the worker")
			return nil
		}
		return a.changeService(cmd.Context(), home, service.Remove, *dryRemove)
	})
	return noun("service", "The boot service of the worker", install, remove)
}

// changeService plans, shows and has root do a change of the worker's service.
func (a *app) changeService(ctx context.Context, home hardware.Home, verb service.Verb, dry bool) error {
	host, err := service.ThisHost()
	if err != nil {
		return err
	}
	folder, err := filepath.EvalSymlinks(string(home))
	if err != nil {
		return fault.Wrap(err, fault.NotFound, "%s is not there", home).WithHint("paste the line that `interlock hardware command` prints")
	}
	q := service.NewRequest(verb, folder, taskWorker)
	plan, err := host.Plan(ctx, q)
	if err != nil {
		return err
	}
	a.showPlan(host, plan, place{})
	if dry {
		a.say("nothing was changed")
		return nil
	}
	if err := host.MakeMissing(plan); err != nil {
		return err
	}
	if !plan.NeedsRoot() {
		return nil
	}
	return a.asRoot(ctx, host, q)
}

func (a *app) hardwareConfigureCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "configure", Short: "Write the worker's settings; setup.sh does that", Args: cobra.NoArgs,
		Long: "Prove a task-worker key, read from standard input, and keep it with the control plane's address in the file of\n" +
			"settings, readable by you alone. Variables that name the model (" + strings.Join(hardware.Names()[5:], ", ") + ")\n" +
			"are taken from the environment. A worker that has a key keeps it when none is given.",
	}
	origin := cmd.Flags().String("url", "", "the control plane")
	name := cmd.Flags().String("name", "", "what this machine is called in the project (default: its host name)")
	fromStdin := cmd.Flags().Bool("key-stdin", false, "read the key from standard input; an empty line is no key")
	cmd.RunE = a.onHardware(func(cmd *cobra.Command, home hardware.Home) error {
		vars, err := home.Variables()
		if err != nil {
			return err
		}
		if *fromStdin {
			line, err := bufio.NewReader(a.In).ReadString('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("read the key: %w", err)
			}
			if key := strings.TrimSpace(line); key != "" {
				vars[hardware.EnvKey] = key
			}
		}
		a.fillHardware(cmd.Context(), vars, *origin, *name)
		s, err := home.Parse(vars)
		if err != nil {
			return err
		}
		project, err := a.proveHardware(cmd.Context(), home, s)
		if err != nil {
			return err
		}
		if err := home.Write(vars); err != nil {
			return err
		}
		a.say("set up as worker %s of project %s: model %s", clean(s.Worker), clean(project), clean(s.Alias))
		return nil
	})
	return cmd
}

// fillHardware adds what the command line and the environment say to the settings.
func (a *app) fillHardware(ctx context.Context, vars map[string]string, origin, name string) {
	if origin != "" {
		vars[hardware.EnvURL], vars[hardware.EnvPin], vars[hardware.EnvInsecure] = strings.TrimRight(origin, "/"), a.flags.Pin, ""
		if a.flags.InsecureHTTP {
			vars[hardware.EnvInsecure] = "1"
		}
	}
	for _, v := range hardware.Names()[5:] {
		if text := a.env.Getenv(v); text != "" {
			vars[v] = text
		}
	}
	if name != "" {
		vars[hardware.EnvWorker] = name
	}
	if vars[hardware.EnvWorker] == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "machine"
		}
		// Two machines of one name are two workers.
		id := ident.HashSecret(hostfacts.ID(ctx))
		vars[hardware.EnvWorker] = ident.Slug(host) + "-" + id[:min(6, len(id))]
	}
}

// proveHardware asks the control plane what the key is, before anything is written, and pins the root of
// trust of its releases.
func (a *app) proveHardware(ctx context.Context, home hardware.Home, s hardware.Settings) (project string, err error) {
	c, err := a.hardwareClient(s)
	if err != nil {
		return "", err
	}
	defer c.Close()
	who, err := c.Whoami(ctx)
	if err != nil {
		return "", err
	}
	if who.Kind != access.TaskWorker {
		return "", fault.New(fault.ScopeDenied, "the key is of kind %s; a worker wants a task-worker key", who.Kind).
			WithHint("paste the line that `interlock hardware command` prints")
	}
	if _, err := os.Stat(home.App()); err != nil {
		return who.Project, nil // set up by hand: there is no program to keep
	}
	first, err := updater.Pin(ctx, home.App(), updater.Origin{Name: s.URL, Client: c})
	if err != nil {
		return "", err
	}
	if first {
		a.note("the releases of %s are trusted from now on by the root of trust that it showed", s.URL)
	}
	return who.Project, nil
}

func (a *app) hardwareClient(s hardware.Settings) (*client.Client, error) {
	return client.New(client.Options{BaseURL: s.URL, Credential: s.Key, Pin: s.Pin, InsecureHTTP: s.InsecureHTTP, UserAgent: userAgent()})
}
