package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"interlock.sh/fleet"
)

func (a *app) deployCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "deploy <release>",
		Short: "Give a release an alias and assign it to the group's inference machines",
		Long: `Give a release an alias and assign it to the group's inference machines. The alias is what
applications call the model; it names exact weights and is never given to others.`,
		Example: "  interlock models deploy q4 --alias qwen3-4b",
		Args:    exactly(1),
	}
	ref, asJSON := groupFlags(cmd), jsonFlag(cmd)
	f := cmd.Flags()
	alias := f.String("alias", "", "the name that applications use")
	route := f.String("route", "", "billed route (default ai.self-hosted.<alias>)")
	var set fleet.Settings
	f.IntVar(&set.ContextLength, "context", 0, "context length of a slot (default: the release's)")
	f.IntVar(&set.Slots, "slots", 0, "requests served at once (default: the release's)")
	f.IntVar(&set.Threads, "threads", 0, "threads of the model server (default: its own)")
	layers := f.Int("gpu-layers", 0, "layers to put on the GPU (default: the model server's own)")
	f.StringArrayVar(&set.Args, "arg", nil, "an extra argument of the model server; repeat it for several")
	deploy := a.onGroup(ref, func(ctx context.Context, s *session, group string, args []string) error {
		d, err := s.Deploy(ctx, group, fleet.NewDeploymentRequest{Release: args[0], Alias: *alias, Route: *route, Settings: set})
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(d)
		}
		a.say("%s serves release %s (%s, route %s)", d.Alias, d.Release, d.ID, d.Route)
		a.note("ask it with `interlock ask \"…\" --model %s`; `interlock models machine list` shows who is loading it", d.Alias)
		return nil
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *alias == "" {
			return usage("no alias was given: choose what applications call the model with --alias")
		}
		if cmd.Flags().Changed("gpu-layers") { // zero layers is a choice of its own
			set.GPULayers = layers
		}
		if err := fleet.CheckAlias("alias", *alias); err != nil {
			return err
		}
		if err := set.Check(); err != nil {
			return err
		}
		return deploy(cmd, args)
	}
	return cmd
}

func (a *app) undeployCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "undeploy <alias>", Short: "Take a deployment off the machines; its alias keeps naming those weights", Args: exactly(1)}
	ref, asJSON := groupFlags(cmd), jsonFlag(cmd)
	cmd.RunE = a.onGroup(ref, func(ctx context.Context, s *session, group string, args []string) error {
		d, err := s.RetireDeployment(ctx, group, args[0])
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(d)
		}
		a.say("%s is taken off the machines", d.Alias)
		return nil
	})
	return cmd
}

func (a *app) deploymentTable(deployments []fleet.Deployment) {
	var rows [][]string
	for _, d := range deployments {
		state := strconv.Itoa(d.Ready) + " ready"
		if d.RetiredAt != nil {
			state = "retired " + a.ago(d.RetiredAt)
		}
		rows = append(rows, []string{d.Alias, d.Release, state, d.Route, d.ID, a.ago(&d.CreatedAt)})
	}
	a.table([]string{"ALIAS", "RELEASE", "MACHINES", "ROUTE", "ID", "CREATED"}, rows)
}
