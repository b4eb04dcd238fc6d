package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"interlock.sh/fault"
	"interlock.sh/fleet"
)

func (a *app) modelsRegisterCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "register",
		Short: "Register a model group and print the line to paste on each kind of machine",
		Long: `Register a model group. With --dir (default: this folder) the group's id is written to
` + modelFileName + ` there, and a second registration of the same folder is refused. With --group the
group gets that name and no file is written.`,
		Args: cobra.NoArgs,
	}
	name := cmd.Flags().String("name", "", "the group's name (default: the folder's)")
	ref, asJSON := groupFlags(cmd), jsonFlag(cmd)
	cmd.MarkFlagsMutuallyExclusive("group", "name")
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ *cobra.Command, _ []string) error {
		var got fleet.NewGroup
		var err error
		if ref.group != "" {
			got, err = s.RegisterGroup(ctx, fleet.NewGroupRequest{Name: ref.group})
		} else {
			got, err = registerFolder(ctx, s, ref.path(a.env.Dir), *name)
		}
		// Once the server has made the keys they are shown, whatever happened to the file.
		if err != nil && got.Group.ID == "" {
			return err
		}
		if *asJSON {
			return errors.Join(a.printJSON(got), err)
		}
		a.note("registered %s as %s in project %s", got.Group.Name, got.Group.ID, got.Group.Project)
		a.handoff(got.Group.Name, got.Keys)
		return err
	})
	return cmd
}

// registerFolder registers the model project in dir and keeps its id there.
func registerFolder(ctx context.Context, s *session, dir, name string) (fleet.NewGroup, error) {
	m, err := loadModelFile(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		m = modelFile{SchemaVersion: modelFileVersion, Name: filepath.Base(dir)}
	case err != nil:
		return fleet.NewGroup{}, err
	case m.ModelID != "":
		return fleet.NewGroup{}, fault.New(fault.Conflict, "%s is registered already, as %s", dir, m.ModelID).
			WithHint("for fresh lines to paste: `interlock models key rotate client --group %s`", m.ModelID)
	}
	if name != "" {
		m.Name = name
	}
	if err := fleet.CheckName("name", m.Name); err != nil {
		return fleet.NewGroup{}, err
	}
	// Written before and after, so that a folder that cannot be written leaves no group behind.
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fleet.NewGroup{}, fmt.Errorf("make the model project's folder: %w", err)
	}
	if err := m.save(dir); err != nil {
		return fleet.NewGroup{}, err
	}
	got, err := s.RegisterGroup(ctx, fleet.NewGroupRequest{Name: m.Name})
	if err != nil {
		return got, err
	}
	m.ModelID, m.Origin, m.Project = got.Group.ID, s.BaseURL(), got.Group.Project
	if err := m.save(dir); err != nil {
		f := fault.Of(err)
		return got, f.WithHint("the group is registered all the same: put \"modelId\": %q into the file", m.ModelID)
	}
	return got, nil
}

// handoff prints what to paste, a block a role: under coloured titles on a terminal, else as plain text
// whose titles a shell takes for comments.
func (a *app) handoff(group string, keys []fleet.BootstrapKey) {
	p := a.paint(a.Out)
	for _, k := range keys {
		title, colour := "inference machine", p.green
		if k.Role == fleet.RoleTrainer {
			title, colour = "training machine", p.blue
		}
		rule := ""
		if p.on {
			rule = p.dim(" " + strings.Repeat("─", 40))
		}
		fmt.Fprintf(a.Out, "%s%s\n%s\n\n", colour(fmt.Sprintf("# %s (%s) of %s: paste this on it", title, k.Role, clean(group))), rule, strings.TrimRight(cleanText(k.Line), "\n"))
	}
	a.note("the keys in these lines are shown once; each line works for any number of machines until its key is rotated")
}
