package cli

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"interlock.sh/access"
	"interlock.sh/ai"
	"interlock.sh/installer"
	"interlock.sh/tasks"
)

func (a *app) hardwareCmd() *cobra.Command {
	c := noun("hardware", "Serve a model of this project on a machine of yours, without a fleet",
		a.hardwareCommandCmd(), a.hardwareListCmd(), a.hardwareStatusCmd(), a.hardwareDoctorCmd(),
		a.hardwareRunCmd(), a.hardwareStartCmd(), a.hardwareStopCmd(), a.hardwareRestartCmd(),
		a.hardwareUpdateCmd(), a.hardwareRollbackCmd(), a.hardwareServiceCmd(), a.hardwareConfigureCmd())
	c.Long = "Your hardware: a worker with a task-worker key that serves one model on one machine. `interlock hardware\n" +
		"command` prints the line to paste there; on that machine the other verbs look after it, as setup.sh does."
	return c
}

func (a *app) hardwareCommandCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "command", Short: "Make a task-worker key and print the line to paste on the machine", Args: cobra.NoArgs,
		Long: "Make a fresh task-worker key and print the line that installs a worker with it. The key may register, claim\n" +
			"and report work of this project and nothing else. It is shown once: the line is good for one machine.",
	}
	label := cmd.Flags().String("label", "your hardware", "what the key is called in `interlock keys list`")
	public := cmd.Flags().String("url", "", "address that the machine reaches the control plane by (default: the one in play)")
	asJSON := jsonFlag(cmd)
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ *cobra.Command, _ []string) error {
		project, err := s.needProject()
		if err != nil {
			return err
		}
		spec := installer.HardwareLineSpec{URL: s.BaseURL(), Pin: a.flags.Pin, InsecureHTTP: a.flags.InsecureHTTP}
		if *public != "" {
			spec.URL = *public
		}
		u, err := url.Parse(spec.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return usage("--url %s is no http or https address", spec.URL)
		}
		k, err := s.NewKey(ctx, project, access.NewKeyRequest{Kind: access.TaskWorker, Label: *label})
		if err != nil {
			return err
		}
		spec.Key = k.Key
		line := installer.HardwareLine(spec)
		if *asJSON {
			return a.printJSON(struct {
				access.NewKey
				Command string `json:"command"`
			}{k, line})
		}
		a.note("task-worker key %q of project %s (%s); the line is shown once, and good for one machine:", k.Label, k.Project, k.ID)
		fmt.Fprint(a.Out, line) // no word of it acts on a terminal
		if onLoopback(net.JoinHostPort(u.Hostname(), "0")) {
			a.note("another machine does not reach %s: name the address that it knows with --url", spec.URL)
		}
		return nil
	})
	return cmd
}

func (a *app) hardwareListCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the project's own hardware: ready, full, draining or offline", Args: cobra.NoArgs}
	asJSON := jsonFlag(cmd)
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ *cobra.Command, _ []string) error {
		workers, err := s.TaskWorkers(ctx)
		if err != nil {
			return err
		}
		workers = slices.DeleteFunc(workers, func(w tasks.WorkerView) bool { return w.Machine != "" || len(modelsOf(w)) == 0 })
		if *asJSON {
			return a.printJSON(map[string]any{"workers": some(workers)})
		}
		if len(workers) == 0 {
			a.empty("this project has no hardware of its own: `interlock hardware command` prints the line that adds a machine")
			return nil
		}
		var rows [][]string
		for _, w := range workers {
			rows = append(rows, []string{
				w.WorkerID, strings.Join(modelsOf(w), ", "), w.State, strconv.Itoa(w.Running) + " of " + strconv.Itoa(w.MaxConcurrent), w.Version, a.ago(&w.LastSeen),
			})
		}
		a.table([]string{"WORKER", "MODEL", "STATE", "RUNNING", "VERSION", "SEEN"}, rows)
		return nil
	})
	return cmd
}

// modelsOf are the models that a worker serves by their alias.
func modelsOf(w tasks.WorkerView) []string {
	var out []string
	for _, p := range w.Pools {
		if alias, ok := ai.HardwareAlias(p); ok {
			out = append(out, alias)
		}
	}
	return out
}
