package cli

import (
	"github.com/spf13/cobra"

	"interlock.sh/server"
)

func (a *app) adminCmd() *cobra.Command {
	return noun("admin", "Administer a control plane on its own machine", a.ownerTokenCmd(), a.healthCmd())
}

func (a *app) ownerTokenCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "owner-token", Short: "Make a new owner token, on the server's machine", Args: cobra.NoArgs,
		Long: "Make a new owner token for `interlock login`, whether or not the server runs. It works once, within 24\n" +
			"hours, and is shown once; an earlier one that was not used ends. Run it as the server's user.",
	}
	var data string
	dataFlag(cmd, &data)
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		token, err := server.NewOwnerToken(cmd.Context(), data, a.clock)
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(map[string]string{"token": token})
		}
		a.note("this owner token works once, within 24 hours: give it to `interlock login`")
		a.say("%s", token)
		return nil
	}
	return cmd
}
