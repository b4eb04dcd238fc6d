package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"interlock.sh/access"
	"interlock.sh/fault"
)

func (a *app) keysCmd() *cobra.Command {
	return noun("keys", "Manage a project's keys", a.keysListCmd(), a.keysNewCmd(), a.keysRollCmd(), a.keysRevokeCmd())
}

// needProject is the project in play, which these verbs name in their address.
func (s *session) needProject() (string, error) {
	if p := s.Project(); p != "" {
		return p, nil
	}
	return "", fault.New(fault.Invalid, "no project is chosen").WithField("project").
		WithHint("name one with --project; `interlock projects` lists them")
}

func (a *app) keysListCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List keys by their prefix, revoked ones included", Args: cobra.NoArgs}
	asJSON := jsonFlag(cmd)
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ *cobra.Command, _ []string) error {
		project, err := s.needProject()
		if err != nil {
			return err
		}
		keys, err := s.Keys(ctx, project)
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(map[string]any{"keys": some(keys)})
		}
		if len(keys) == 0 {
			a.empty("project %s has no keys: make one with `interlock keys new <label> --kind sdk`", project)
			return nil
		}
		var rows [][]string
		for _, k := range keys {
			state := "active"
			if k.RevokedAt != nil {
				state = "revoked " + a.ago(k.RevokedAt)
			}
			rows = append(rows, []string{k.ID, string(k.Kind), k.Label, k.Prefix, state, a.ago(k.LastUsed)})
		}
		a.table([]string{"ID", "KIND", "LABEL", "KEY", "STATE", "LAST USED"}, rows)
		return nil
	})
	return cmd
}

func (a *app) keysNewCmd() *cobra.Command {
	var kinds []string
	for _, k := range access.ProjectKinds {
		kinds = append(kinds, string(k))
	}
	cmd := &cobra.Command{
		Use: "new <label>", Short: "Make a key; its text is shown once", Args: exactly(1),
		Example: "  interlock keys new \"garage worker\" --kind task-worker --project home",
	}
	kind := cmd.Flags().String("kind", string(access.SDK), "what the key is for: "+strings.Join(kinds, ", "))
	asJSON := jsonFlag(cmd)
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp)) // only fails for a flag that does not exist
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(kinds, *kind) {
			return usage("--kind %s is none of %s", *kind, strings.Join(kinds, ", "))
		}
		return a.online(func(ctx context.Context, s *session, _ *cobra.Command, _ []string) error {
			project, err := s.needProject()
			if err != nil {
				return err
			}
			k, err := s.NewKey(ctx, project, access.NewKeyRequest{Kind: access.Kind(*kind), Label: args[0]})
			if err != nil {
				return err
			}
			return a.showKey(k, *asJSON, fmt.Sprintf("%s key %q of project %s (%s)", k.Kind, k.Label, k.Project, k.ID))
		})(cmd, args)
	}
	return cmd
}

// showKey prints a fresh key: its text alone on the standard output, so that it can be piped to where
// it is kept, and everything about it beside.
func (a *app) showKey(k access.NewKey, asJSON bool, what string) error {
	if asJSON {
		return a.printJSON(k)
	}
	a.note("%s; it is shown once, keep it now", what)
	a.say("%s", k.Key)
	return nil
}

func (a *app) keysRollCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "roll <key-id>", Short: "Make a key's successor; its text is shown once", Args: exactly(1)}
	yes, asJSON := yesFlag(cmd), jsonFlag(cmd)
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ *cobra.Command, args []string) error {
		project, err := s.needProject()
		if err != nil {
			return err
		}
		if err := a.confirm(ctx, *yes, fmt.Sprintf("roll key %s of project %s? Whatever uses it stops at once, unless it is a task-worker key.", args[0], project)); err != nil {
			return err
		}
		k, err := s.RollKey(ctx, project, args[0])
		if err != nil {
			return err
		}
		old := args[0] + " no longer works"
		if k.Kind == access.TaskWorker {
			old = fmt.Sprintf("%s works until you revoke it: `interlock keys revoke %s`", args[0], args[0])
		}
		return a.showKey(k, *asJSON, fmt.Sprintf("%s; its successor, %s key %q of project %s (%s)", old, k.Kind, k.Label, k.Project, k.ID))
	})
	return cmd
}

func (a *app) keysRevokeCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "revoke <key-id>", Short: "End a key at once", Args: exactly(1)}
	yes := yesFlag(cmd)
	asJSON := jsonFlag(cmd)
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ *cobra.Command, args []string) error {
		project, err := s.needProject()
		if err != nil {
			return err
		}
		if err := a.confirm(ctx, *yes, fmt.Sprintf("revoke key %s of project %s? Whatever uses it stops at once.", args[0], project)); err != nil {
			return err
		}
		k, err := s.RevokeKey(ctx, project, args[0])
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(k)
		}
		a.say("revoked %s (%s %q, %s)", k.ID, k.Kind, k.Label, k.Prefix)
		return nil
	})
	return cmd
}
