package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"interlock.sh/fleet"
)

func (a *app) modelsCmd() *cobra.Command {
	return noun("models", "Model groups: register, release, deploy, operate",
		a.modelsRegisterCmd(), a.modelsListCmd(), a.modelsStatusCmd(),
		noun("key", "Bootstrap keys of a group", a.modelsKeyRotateCmd(), a.modelsKeyListCmd()),
		noun("release", "Immutable releases", a.releaseCreateCmd(), a.releaseListCmd()),
		a.deployCmd(), a.undeployCmd(),
		noun("channel", "Names that point at a deployment", a.channelSetCmd(), a.channelRmCmd()),
		noun("machine", "Enrolled machines", a.machineListCmd(),
			a.machineActCmd("pause", "Stop a machine's models and keep its installation"),
			a.machineActCmd("resume", "Let a paused or draining machine work again"),
			a.machineActCmd("drain", "Let a machine finish its work and take no more"),
			a.machineActCmd("revoke", "Remove a machine: its credential ends at once")),
	)
}

// groupFlags adds --group and --dir.
func groupFlags(cmd *cobra.Command) *groupRef {
	g := &groupRef{}
	cmd.Flags().StringVar(&g.group, "group", "", "the model group, by name or id")
	cmd.Flags().StringVar(&g.dir, "dir", "", "the model project's folder (default: this one)")
	cmd.MarkFlagsMutuallyExclusive("group", "dir")
	return g
}

// onGroup is online for a verb on one group.
func (a *app) onGroup(ref *groupRef, verb func(ctx context.Context, s *session, group string, args []string) error) func(*cobra.Command, []string) error {
	return a.online(func(ctx context.Context, s *session, _ *cobra.Command, args []string) error {
		group, s, err := ref.find(s, a.env.Dir)
		if err != nil {
			return err
		}
		return verb(ctx, s, group, args)
	})
}

func (a *app) modelsListCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the project's model groups", Args: cobra.NoArgs}
	asJSON := jsonFlag(cmd)
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ *cobra.Command, _ []string) error {
		groups, err := s.Groups(ctx)
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(map[string]any{"groups": some(groups)})
		}
		if len(groups) == 0 {
			a.empty("no model groups yet: make one with `interlock models register --dir my-model`")
			return nil
		}
		var rows [][]string
		for _, g := range groups {
			rows = append(rows, []string{g.Name, g.ID, fmt.Sprint(g.Machines), fmt.Sprint(g.Releases), a.ago(&g.CreatedAt)})
		}
		a.table([]string{"NAME", "ID", "MACHINES", "RELEASES", "CREATED"}, rows)
		return nil
	})
	return cmd
}

func (a *app) modelsStatusCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "Show a group: releases, deployments, channels, machines, keys", Args: cobra.NoArgs}
	ref, asJSON := groupFlags(cmd), jsonFlag(cmd)
	cmd.RunE = a.onGroup(ref, func(ctx context.Context, s *session, group string, _ []string) error {
		st, err := s.GroupStatus(ctx, group)
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(st)
		}
		a.facts("group", st.Group.Name, "id", st.Group.ID, "project", st.Group.Project)
		p := a.paint(a.Out)
		section := func(title string, n int, show func()) {
			fmt.Fprintf(a.Out, "\n%s\n", p.bold(title))
			if n == 0 {
				fmt.Fprintln(a.Out, "none")
				return
			}
			show()
		}
		section("Machines", len(st.Machines), func() { a.machineTable(st.Machines) })
		section("Deployments", len(st.Deployments), func() { a.deploymentTable(st.Deployments) })
		section("Channels", len(st.Channels), func() {
			var rows [][]string
			for _, c := range st.Channels {
				rows = append(rows, []string{st.Group.Name + "@" + c.Name, c.Alias, a.ago(&c.UpdatedAt)})
			}
			a.table([]string{"CHANNEL", "DEPLOYMENT", "CHANGED"}, rows)
		})
		section("Releases", len(st.Releases), func() { a.releaseTable(st.Releases) })
		section("Keys", len(st.Keys), func() { a.bootstrapTable(st.Keys) })
		return nil
	})
	return cmd
}

func (a *app) modelsKeyListCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List bootstrap keys by their prefix, replaced ones included", Args: cobra.NoArgs}
	ref, asJSON := groupFlags(cmd), jsonFlag(cmd)
	cmd.RunE = a.onGroup(ref, func(ctx context.Context, s *session, group string, _ []string) error {
		keys, err := s.GroupKeys(ctx, group)
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(map[string]any{"keys": some(keys)})
		}
		a.bootstrapTable(keys)
		return nil
	})
	return cmd
}

func (a *app) bootstrapTable(keys []fleet.BootstrapKeyView) {
	var rows [][]string
	for _, k := range keys {
		state := "active"
		if k.RevokedAt != nil {
			state = "replaced " + a.ago(k.RevokedAt)
		}
		rows = append(rows, []string{string(k.Role), k.Prefix, k.ID, state, a.ago(&k.CreatedAt), a.ago(k.LastUsed)})
	}
	a.table([]string{"ROLE", "KEY", "ID", "STATE", "CREATED", "LAST USED"}, rows)
}

func (a *app) modelsKeyRotateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rotate client|trainer", Short: "Replace a bootstrap key and print the line to paste; machines already enrolled go on",
		Args: exactly(1), ValidArgs: []string{string(fleet.RoleClient), string(fleet.RoleTrainer)},
	}
	ref, asJSON := groupFlags(cmd), jsonFlag(cmd)
	rotate := a.onGroup(ref, func(ctx context.Context, s *session, group string, args []string) error {
		key, err := s.RotateGroupKey(ctx, group, fleet.Role(args[0]))
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(key)
		}
		a.handoff(ref.said, []fleet.BootstrapKey{key})
		a.note("older %s keys of %s enroll no machine any more; enrolled machines are not affected", key.Role, ref.said)
		return nil
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !fleet.Role(args[0]).Valid() {
			return usage("%q is no role; a key is for %s or %s", args[0], fleet.RoleClient, fleet.RoleTrainer)
		}
		return rotate(cmd, args)
	}
	return cmd
}

func (a *app) channelSetCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "set <channel> <alias>", Short: "Point a channel at a deployment", Args: exactly(2)}
	ref, asJSON := groupFlags(cmd), jsonFlag(cmd)
	cmd.RunE = a.onGroup(ref, func(ctx context.Context, s *session, group string, args []string) error {
		c, err := s.SetChannel(ctx, group, args[0], fleet.SetChannelRequest{Alias: args[1]})
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(c)
		}
		a.say("%s@%s is %s now", ref.said, c.Name, c.Alias)
		return nil
	})
	return cmd
}

func (a *app) channelRmCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "rm <channel>", Short: "Remove a channel; what it pointed at goes on", Args: exactly(1)}
	ref, asJSON := groupFlags(cmd), jsonFlag(cmd)
	cmd.RunE = a.onGroup(ref, func(ctx context.Context, s *session, group string, args []string) error {
		c, err := s.RemoveChannel(ctx, group, args[0])
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(c)
		}
		a.say("%s@%s is removed; %s goes on under its own name", ref.said, c.Name, c.Alias)
		return nil
	})
	return cmd
}
