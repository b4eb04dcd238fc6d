package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"interlock.sh/cli/profile"
)

// healthCmd is what a container runtime or a load balancer runs: no credential, no state, an exit code.
func (a *app) healthCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "health", Short: "Ask whether a control plane serves; the exit code is 1 when it does not", Args: cobra.NoArgs,
		Example: "  interlock admin health --api http://127.0.0.1:8090",
	}
	within := cmd.Flags().Duration("within", 5*time.Second, "how long to wait for the answer")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := profile.Resolve(a.flags, a.env.Env)
		if err != nil {
			return err
		}
		c, err := r.Client(userAgent())
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), *within)
		defer cancel()
		if err := c.WithCredential("").Healthy(ctx); err != nil {
			return err
		}
		a.say("%s serves", r.BaseURL)
		return nil
	}
	return cmd
}
