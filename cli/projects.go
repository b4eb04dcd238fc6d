package cli

import (
	"context"

	"github.com/spf13/cobra"

	"interlock.sh/access"
	"interlock.sh/cli/profile"
)

func (a *app) projectsCmd() *cobra.Command {
	cmd := noun("projects", "List your projects, or make one", a.projectsNewCmd())
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return group(cmd, args)
		}
		return a.online(func(ctx context.Context, s *session, _ *cobra.Command, _ []string) error {
			projects, err := s.WithProject("").Projects(ctx)
			if err != nil {
				return err
			}
			if *asJSON {
				return a.printJSON(map[string]any{"projects": some(projects)})
			}
			if len(projects) == 0 {
				a.empty("no projects yet: make one with `interlock projects new <id>`")
				return nil
			}
			var rows [][]string
			for _, p := range projects {
				mark := " "
				if p.ID == s.Project() {
					mark = "*"
				}
				rows = append(rows, []string{mark, p.ID, p.Name, a.ago(&p.CreatedAt)})
			}
			a.table([]string{" ", "PROJECT", "NAME", "CREATED"}, rows)
			return nil
		})(cmd, args)
	}
	return cmd
}

func (a *app) projectsNewCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "new <id>", Short: "Make a project", Args: exactly(1)}
	name := cmd.Flags().String("name", "", "what people call it (default: the id)")
	asJSON := jsonFlag(cmd)
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ *cobra.Command, args []string) error {
		p, err := s.WithProject("").NewProject(ctx, access.NewProjectRequest{ID: args[0], Name: *name})
		if err != nil {
			return err
		}
		chosen := s.how.CredentialSource == profile.FromProfile && s.how.Config.Project == ""
		if chosen {
			kept := s.how.Config
			kept.Project = p.ID
			if err := profile.Save(s.how.Path, kept); err != nil { // the project stands all the same
				a.note("warning: the project is made, but the profile does not remember it: %v", err)
				chosen = false
			}
		}
		if *asJSON {
			return a.printJSON(p)
		}
		a.say("project %s", p.ID)
		if chosen {
			a.note("profile %s now works in project %s", s.how.Profile, p.ID)
		}
		return nil
	})
	return cmd
}

// some is items, never null in JSON.
func some[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}
