package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"interlock.sh/cli/profile"
	"interlock.sh/fault"
	programs "interlock.sh/fleet/build"
	"interlock.sh/updater"
)

func (a *app) updateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "update", Short: "Bring this program, and those beside it, to the newest signed version", Args: cobra.NoArgs,
		Long: "Replace this program by the newest signed version that its control plane offers, and interlock-tui and\n" +
			"nightshift where they stand beside it. The programs of an enrolled machine have their own: interlock agent update.",
	}
	version := cmd.Flags().String("version", "", "this version instead of the newest")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
		if program, err = filepath.EvalSymlinks(program); err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
		r, err := profile.Target(a.flags, a.env.Env)
		if err != nil {
			return err
		}
		a.warn(r)
		o, err := mirror(r.BaseURL, r.Pin, r.InsecureHTTP)
		if err != nil {
			return err
		}
		defer o.Client.Close()
		out, err := a.updatePrograms(cmd.Context(), o, program, *version)
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(map[string]any{"programs": some(out)})
		}
		for _, p := range out {
			word := "is the newest"
			if p.Fresh {
				word = "is new"
			}
			a.say("%s %s %s", p.Program, orUnknown(p.Version), word)
		}
		return nil
	}
	return cmd
}

// updated is what became of one program.
type updated struct {
	Program string `json:"program"`
	Path    string `json:"path"`
	Version string `json:"version"`
	Fresh   bool   `json:"fresh"`
}

// updatePrograms replaces this program and its siblings. A sibling that no release has yet is left alone.
func (a *app) updatePrograms(ctx context.Context, o updater.Origin, program, version string) ([]updated, error) {
	if a.env.Home == "" {
		return nil, fault.New(fault.Invalid, "the home folder of this user is not known").WithHint("set HOME")
	}
	sum := sha256.Sum256([]byte(o.Client.BaseURL()))
	opts := updater.Options{
		App: filepath.Join(a.env.Home, ".interlock", "updates", hex.EncodeToString(sum[:8])), Root: updater.BuiltIn(),
		Origins: []updater.Origin{o}, Clock: a.clock, Try: startsUp, VersionOf: saysVersion,
	}
	var out []updated
	for _, name := range []string{programs.Interlock, programs.TUI, programs.Nightshift} {
		p := updater.Single{Path: filepath.Join(filepath.Dir(program), name), To: version}
		if name == programs.Interlock {
			p.Path, p.Version = program, Version
		} else if st, err := os.Stat(p.Path); err != nil || !st.Mode().IsRegular() {
			continue
		}
		opts.Program = name
		v, fresh, err := updater.SelfUpdate(ctx, opts, p)
		if err != nil && name != programs.Interlock && errors.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("update %s: %w", p.Path, err)
		}
		out = append(out, updated{name, p.Path, v, fresh})
	}
	return out, nil
}

// sortedVersions are the keys, highest version first.
func sortedVersions(m map[string]string) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int { return programs.Compare(b, a) })
}

// linkTarget is what a link names; "" when it is none.
func linkTarget(path string) string {
	to, err := os.Readlink(path)
	if err != nil {
		return ""
	}
	return to
}
