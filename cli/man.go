package cli

import (
	"github.com/spf13/cobra"

	"interlock.sh/cli/profile"
	"interlock.sh/internal/clock"
)

// Commands is the whole tree of commands, for what describes it: manual pages and shell completions are
// made from it when a package is built. No verb of it is to be run.
func Commands() *cobra.Command {
	a := &app{clock: clock.System, env: Env{Env: profile.Env{}, Program: "interlock"}}
	root := a.root()
	root.InitDefaultCompletionCmd()
	return root
}
