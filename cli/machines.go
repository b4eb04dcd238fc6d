package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"interlock.sh/client"
	"interlock.sh/fleet"
)

func (a *app) machineListCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List machines: those of the group named, else all of the project", Args: cobra.NoArgs}
	ref, asJSON := groupFlags(cmd), jsonFlag(cmd)
	show := func(machines []fleet.Machine) error {
		if *asJSON {
			return a.printJSON(map[string]any{"machines": some(machines)})
		}
		if len(machines) == 0 {
			a.empty("no machines yet: paste the line that `interlock models key rotate client --group <group>` prints on one")
			return nil
		}
		a.machineTable(machines)
		return nil
	}
	ofGroup := a.onGroup(ref, func(ctx context.Context, s *session, group string, _ []string) error {
		st, err := s.GroupStatus(ctx, group)
		if err != nil {
			return err
		}
		return show(st.Machines)
	})
	ofProject := a.online(func(ctx context.Context, s *session, _ *cobra.Command, _ []string) error {
		machines, err := s.Machines(ctx)
		if err != nil {
			return err
		}
		return show(machines)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *ref != (groupRef{}) {
			return ofGroup(cmd, args)
		}
		return ofProject(cmd, args)
	}
	return cmd
}

func (a *app) machineTable(machines []fleet.Machine) {
	var rows [][]string
	for _, m := range machines {
		slots, busy := 0, 0
		var models []string
		var speed *float64
		for _, d := range m.Deployments {
			models = append(models, modelWords(d))
			if !d.State.Serving() {
				continue // its slots are not there to be used
			}
			slots, busy = slots+d.Slots, busy+d.Busy
			if d.TokensPerSecond != nil {
				speed = d.TokensPerSecond
			}
		}
		use := unknown
		if slots > 0 {
			use = fmt.Sprintf("%d/%d", busy, slots)
		}
		rows = append(rows, []string{
			m.Name, m.State.String(), m.GroupName + "/" + string(m.Role), strings.Join(models, ", "), use, rate(speed),
			size(m.Host.MemoryFree), m.Version, a.ago(m.LastSeen), m.ID,
		})
	}
	a.table([]string{"MACHINE", "STATE", "GROUP/ROLE", "MODELS", "BUSY", "TOK/S", "MEM FREE", "VERSION", "SEEN", "ID"}, rows)
	for _, m := range machines {
		for _, d := range m.Deployments {
			if d.State.Detail != "" {
				a.note("%s: %s is %s", m.Name, d.Alias, d.State)
			}
		}
		for _, w := range m.Warnings {
			a.note("%s: %s", m.Name, w)
		}
	}
}

// modelWords is a model of a machine, with what it does unless it answers.
func modelWords(d fleet.DeploymentReport) string {
	switch {
	case d.State.Serving():
		return d.Alias
	case d.State.Kind == fleet.StateDownloading && d.Total > 0:
		return fmt.Sprintf("%s (%s %d%%)", d.Alias, d.State.Kind, d.Downloaded*100/d.Total)
	}
	return fmt.Sprintf("%s (%s)", d.Alias, d.State.Kind)
}

func (a *app) machineActCmd(verb, short string) *cobra.Command {
	cmd := &cobra.Command{Use: verb + " <machine>", Short: short, Args: exactly(1)}
	cmd.Long = short + ".\nA machine is named by its id, or by its name when only one machine has it."
	asJSON := jsonFlag(cmd)
	action := client.MachineAction(verb)
	yes := new(bool)
	if action == client.MachineRevoke {
		yes = yesFlag(cmd)
	}
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ *cobra.Command, args []string) error {
		if action == client.MachineRevoke {
			if err := a.confirm(ctx, *yes, fmt.Sprintf("revoke machine %s? It stops working at once and must be enrolled again with a bootstrap key.", args[0])); err != nil {
				return err
			}
		}
		m, err := s.ActOnMachine(ctx, args[0], action)
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(m)
		}
		if action == client.MachineRevoke {
			a.say("revoked %s (%s)", m.Name, m.ID)
			return nil
		}
		a.say("%s (%s) is to be %s; it is %s now", m.Name, m.ID, m.Mode, m.State)
		return nil
	})
	return cmd
}
