package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"interlock.sh/fault"
	"interlock.sh/server/auth"
	"interlock.sh/server/store"
)

func (a *app) adminCmd() *cobra.Command {
	return noun("admin", "Administer a control plane on its own machine", a.ownerTokenCmd())
}

func (a *app) ownerTokenCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "owner-token", Short: "Make a new owner token, on the server's machine while it is stopped", Args: cobra.NoArgs,
		Long: `Make a new owner token for ` + "`interlock login`" + `. It works once, within 24 hours, and is shown once; an
earlier one that was not used ends. The data folder belongs to one process at a time, so stop the server
first.`,
	}
	var data string
	dataFlag(cmd, &data)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		secret, err := a.newOwnerToken(cmd.Context(), data)
		if err != nil {
			return err
		}
		a.note("this owner token works once, within 24 hours: start the server and give it to `interlock login`")
		a.say("%s", secret)
		return nil
	}
	return cmd
}

func (a *app) newOwnerToken(ctx context.Context, data string) (secret string, err error) {
	// Opening makes what is missing: a token of a fresh, empty control plane would help nobody.
	if entries, err := os.ReadDir(data); err != nil || len(entries) == 0 {
		return "", fault.New(fault.NotFound, "%s holds no control plane", data).WithField("data").
			WithHint("name the folder that `interlock serve --data` uses")
	}
	db, err := store.Open(ctx, store.Options{Dir: data, Clock: a.clock})
	if err != nil {
		return "", err
	}
	defer func() {
		if cerr := db.Close(context.WithoutCancel(ctx)); cerr != nil {
			secret, err = "", errors.Join(err, fmt.Errorf("close the store: %w", cerr))
		}
	}()
	return auth.New(db).NewOwnerToken(ctx)
}
