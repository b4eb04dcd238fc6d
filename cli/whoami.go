package cli

import (
	"cmp"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"interlock.sh/access"
	"interlock.sh/cli/profile"
)

// identity is what whoami prints as JSON.
type identity struct {
	Profile          profile.Name   `json:"profile"`
	ProfilePath      string         `json:"profilePath,omitempty"`
	API              string         `json:"api"`
	CredentialSource profile.Source `json:"credentialSource"`
	KeyDir           string         `json:"keyDir,omitempty"`
	Project          string         `json:"project,omitempty"`
	Server           *access.Whoami `json:"server,omitempty"` // absent when the server was not asked
}

func (a *app) whoamiCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "whoami", Short: "Show profile, server, credential and project in play", Args: cobra.NoArgs}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := profile.Resolve(a.flags, a.env.Env)
		if err != nil {
			return err
		}
		a.warn(r)
		id := identity{Profile: r.Profile, ProfilePath: r.Path, API: r.BaseURL, CredentialSource: r.CredentialSource, KeyDir: r.KeyDir, Project: r.Project}
		failure := r.NeedCredential()
		if failure == nil {
			c, err := r.Client(userAgent())
			if err != nil {
				return err
			}
			defer c.Close()
			who, err := c.WithProject("").Whoami(cmd.Context())
			if failure = r.Explain(err); err == nil {
				id.Server = &who
			}
		}
		// What is known on this side helps most when the server refuses.
		if *asJSON {
			if err := a.printJSON(id); err != nil {
				return err
			}
			return failure
		}
		a.facts(append([]string{"profile", string(r.Profile) + " (" + orUnknown(r.Path) + ")", "api", r.BaseURL,
			"credential", r.Describe(), "key governs", r.KeyDir}, id.serverFacts()...)...)
		return failure
	}
	return cmd
}

// serverFacts are the facts that the server adds, or what is known without it.
func (id identity) serverFacts() []string {
	who := id.Server
	if who == nil {
		return []string{"project", id.Project}
	}
	var projects []string
	for _, p := range who.Projects {
		projects = append(projects, p.ID)
	}
	return []string{
		"kind", string(who.Kind), "account", who.Account, "label", who.Label, "project", orUnknown(cmp.Or(who.Project, id.Project)),
		"projects", strings.Join(projects, ", "), "group", who.Group, "machine", who.Machine,
		"may", strings.Join(who.Scopes, ", "), "server", who.Version,
	}
}

// versionFacts is what version prints as JSON.
type versionFacts struct {
	Version string       `json:"version"`
	Profile profile.Name `json:"profile"`
	Go      string       `json:"go"`
	API     string       `json:"api"`
}

func (a *app) versionCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Show this program's version, the profile and the server", Args: cobra.NoArgs}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		flags := a.flags
		flags.Mend = true // the version is what one is asked for when something is broken
		r, err := profile.Target(flags, a.env.Env)
		if err != nil {
			return err
		}
		a.warn(r)
		if *asJSON {
			return a.printJSON(versionFacts{Version, r.Profile, runtime.Version(), r.BaseURL})
		}
		a.say("interlock %s [%s] · %s · api %s", Version, r.Profile, runtime.Version(), r.BaseURL)
		return nil
	}
	return cmd
}
