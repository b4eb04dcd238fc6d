package cli

import (
	"context"

	"github.com/spf13/cobra"

	"interlock.sh/cli/profile"
	"interlock.sh/client"
)

// session is a verb's connection: the client, and how it was chosen.
type session struct {
	*client.Client
	how profile.Resolved
}

// userAgent names this program and its version to the server.
func userAgent() string { return "interlock/" + Version }

// connect resolves server and credential for an ordinary command.
func (a *app) connect() (*session, error) {
	r, err := profile.Resolve(a.flags, a.env.Env)
	if err != nil {
		return nil, err
	}
	a.warn(r)
	if err := r.NeedCredential(); err != nil {
		return nil, err
	}
	c, err := r.Client(userAgent())
	if err != nil {
		return nil, err
	}
	return &session{Client: c, how: r}, nil
}

func (a *app) warn(r profile.Resolved) {
	for _, w := range r.Warnings {
		a.note("warning: %s", w)
	}
}

// online makes a RunE of a verb that talks to the control plane. A refusal for want of authority says
// which credential was in play.
func (a *app) online(verb func(ctx context.Context, s *session, cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := a.connect()
		if err != nil {
			return err
		}
		defer s.Client.Close()
		return s.how.Explain(verb(cmd.Context(), s, cmd, args))
	}
}
