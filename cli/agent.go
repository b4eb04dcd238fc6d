package cli

import (
	"github.com/spf13/cobra"

	"interlock.sh/agent/supervise"
)

// agentCmd hands the rest of the line to the host agent, which has flags of its own.
func (a *app) agentCmd() *cobra.Command {
	return &cobra.Command{
		Use: "agent", Short: "Run and operate the host agent of this machine",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.programs.Agent == nil {
				return notBuilt("the host agent")
			}
			return ended(a.programs.Agent(cmd.Context(), args, a.Stdio))
		},
	}
}

// runChildCmd is the shim between the agent and a child on systems without a parent-death signal. It is
// started by the agent, not by people.
func (a *app) runChildCmd() *cobra.Command {
	return &cobra.Command{
		Use: "run-child", Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return ended(supervise.RunChild(args))
		},
	}
}

func ended(code int) error {
	if code == ExitOK {
		return nil
	}
	return &exit{code}
}
