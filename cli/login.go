package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"interlock.sh/access"
	"interlock.sh/cli/profile"
	"interlock.sh/client"
	"interlock.sh/fault"
)

func (a *app) loginCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Sign in to a control plane and keep it as this profile",
		Long: `Sign in with an account's token, or with the owner token that a new control plane prints once.
The token is asked for without echo, or read from the standard input. Nothing is written before the
server has accepted it.`,
		Example: "  interlock login --api https://fleet.example.com\n  interlock login --api https://fleet.example.com < token",
		Args:    cobra.NoArgs,
	}
	token := cmd.Flags().String("token", "", "the token (it stays in the shell's history: better leave it out and be asked)")
	name := cmd.Flags().String("name", "", "name of the account that an owner token makes")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.login(cmd.Context(), strings.TrimSpace(*token), *name)
	}
	return cmd
}

func (a *app) login(ctx context.Context, token, name string) error {
	flags := a.flags
	flags.Mend = true
	r, err := profile.Target(flags, a.env.Env)
	if err != nil {
		return err
	}
	a.warn(r)
	// An owner token works once: it is not spent for a profile that then cannot be kept.
	if err := profile.Writable(r.Path); err != nil {
		return err
	}
	c, err := r.Client(userAgent()) // before the token is asked for: a bad address needs none
	if err != nil {
		return err
	}
	defer c.Close()
	if token != "" {
		a.note("warning: a token on the command line stays in the shell's history and in process listings")
	} else if token, err = a.readSecret(ctx, "Token for "+clean(r.BaseURL)); err != nil {
		return err
	}
	if token == "" {
		return usage("no token was given: type it, pipe it in, or use --token")
	}
	kept, err := a.signIn(ctx, c, r, token, name)
	if err != nil {
		return err
	}
	if err := profile.Save(r.Path, kept); err != nil {
		return err
	}
	a.say("signed in to %s as %s (profile %s, %s)", kept.API, kept.Account, r.Profile, r.Path)
	switch {
	case kept.Project != "":
		a.say("project %s", kept.Project)
	default:
		a.note("no project chosen: make one with `interlock projects new <id>`, or choose one with --project")
	}
	return nil
}

// signIn trades or proves the token and looks at what it is for.
func (a *app) signIn(ctx context.Context, c *client.Client, r profile.Resolved, token, name string) (profile.Config, error) {
	got, err := c.Login(ctx, access.LoginRequest{Token: token, Name: name})
	if err != nil {
		return profile.Config{}, keptAsItWas(err, r)
	}
	kept := profile.Config{API: r.BaseURL, Token: got.Token, Account: got.Account, Pin: r.Pin, InsecureHTTP: r.InsecureHTTP}
	who, err := c.WithCredential(got.Token).Whoami(ctx)
	switch {
	case client.Transient(err): // the server has given the token already; an owner token gives no second one
		a.note("warning: %s took the token and then could not be asked again: %v", r.BaseURL, err)
		return kept, nil
	case err != nil:
		return profile.Config{}, keptAsItWas(err, r)
	case who.Kind != access.Account:
		return profile.Config{}, fault.New(fault.Invalid, "that is a key of kind %s, not an account's token", who.Kind).
			WithHint("give a key to programs as INTERLOCK_SDK_KEY or in %s; sign in with an account's token", profile.KeyFileName)
	}
	kept.Project, err = a.loginProject(r, who.Projects)
	return kept, err
}

// loginProject is the project that the profile works in: the one asked for, the one it had, or the
// only one.
func (a *app) loginProject(r profile.Resolved, projects []access.Project) (string, error) {
	has := func(id string) bool {
		return slices.ContainsFunc(projects, func(p access.Project) bool { return p.ID == id })
	}
	switch {
	case a.flags.Project != "" && !has(a.flags.Project):
		return "", fault.New(fault.NotFound, "this account has no project %s on %s", a.flags.Project, r.BaseURL).
			WithHint("leave --project out; `interlock projects` then lists them")
	case a.flags.Project != "":
		return a.flags.Project, nil
	case has(r.Config.Project):
		return r.Config.Project, nil
	case len(projects) == 1:
		return projects[0].ID, nil
	}
	return "", nil
}

// keptAsItWas adds to a refused login that the profile was not touched.
func keptAsItWas(err error, r profile.Resolved) error {
	f := fault.Of(err)
	if f.Code == fault.Internal || r.Config.Token == "" {
		return err
	}
	hint := "profile " + string(r.Profile) + " was left as it was"
	if f.Hint != "" {
		hint = f.Hint + "; " + hint
	}
	return f.WithHint("%s", hint)
}
