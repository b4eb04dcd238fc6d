package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"interlock.sh/fleet"
)

func (a *app) deployCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "deploy <release>",
		Short: "Give a release an alias and assign it to the group's inference machines",
		Long: `Give a release an alias and assign it to the group's inference machines. The alias is what
applications call the model; it names exact weights and is never given to others. Deployed again, what
is given changes and the rest stays as it is; other settings restart the model.`,
		Example: "  interlock models deploy q4 --alias qwen3-4b",
		Args:    exactly(1),
	}
	ref, asJSON := groupFlags(cmd), jsonFlag(cmd)
	f := cmd.Flags()
	alias := f.String("alias", "", "the name that applications use")
	route := f.String("route", "", "billed route (of a new alias: ai.self-hosted.<alias>)")
	var set fleet.SettingsChange
	numbers := []struct {
		flag, usage string
		to          **int
	}{
		{"context", "context length of a slot (0: the release's)", &set.ContextLength},
		{"slots", "requests served at once (0: the release's)", &set.Slots},
		{"threads", "threads of the model server (0: its own)", &set.Threads},
		{"gpu-layers", "layers to put on the GPU (-1: the model server's own)", &set.GPULayers},
	}
	for _, n := range numbers {
		f.Int(n.flag, 0, n.usage)
	}
	f.StringArrayVar(&set.Args, "arg", nil, "an extra argument of the model server; repeat it for several, '' for none")
	deploy := a.onGroup(ref, func(ctx context.Context, s *session, group string, args []string) error {
		d, err := s.Deploy(ctx, group, fleet.NewDeploymentRequest{Release: args[0], Alias: *alias, Route: *route, Settings: set})
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(d)
		}
		a.say("%s serves release %s (%s, route %s)", d.Alias, d.Release, d.ID, d.Route)
		if d.Before != nil {
			a.note("%s; machines restart this model", strings.Join(d.Before.Changes(d.Settings), ", "))
		}
		a.note("ask it with `interlock ask \"…\" --model %s`; `interlock models machine list` shows who is loading it", d.Alias)
		return nil
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *alias == "" {
			return usage("no alias was given: choose what applications call the model with --alias")
		}
		for _, n := range numbers { // only what is given changes
			if v, err := f.GetInt(n.flag); err != nil {
				return err
			} else if f.Changed(n.flag) {
				*n.to = &v
			}
		}
		if len(set.Args) == 1 && set.Args[0] == "" {
			set.Args = []string{}
		}
		if err := fleet.CheckAlias("alias", *alias); err != nil {
			return err
		}
		if err := set.Apply(fleet.Settings{}).Check(); err != nil {
			return err
		}
		return deploy(cmd, args)
	}
	return cmd
}

func (a *app) undeployCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "undeploy <alias>", Short: "Take a deployment off the machines; its alias keeps naming those weights", Args: exactly(1)}
	ref, yes, asJSON := groupFlags(cmd), yesFlag(cmd), jsonFlag(cmd)
	cmd.RunE = a.onGroup(ref, func(ctx context.Context, s *session, group string, args []string) error {
		if err := a.confirm(ctx, *yes, fmt.Sprintf("take %s off every machine of group %s? It finishes the requests in hand and takes no more.", args[0], ref.said)); err != nil {
			return err
		}
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
