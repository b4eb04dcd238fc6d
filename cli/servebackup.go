package cli

import (
	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"interlock.sh/server"
)

func (a *app) serveBackupCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "backup", Short: "Copy the database of a control plane, beside the running server, and list its files", Args: cobra.NoArgs,
		Long: "Write backups/<time>/ into the data folder: interlock.db, a whole copy of the database, and blobs.txt, the\n" +
			"stored files below files/blobs that belong to it. Stored files never change: copy those that are listed,\n" +
			"and the folder, to another place. Run it as the server's user. `interlock serve restore` puts a copy back.",
	}
	var data string
	dataFlag(cmd, &data)
	keep := cmd.Flags().Int("keep", 14, "how many backups stay")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := server.Backup(cmd.Context(), data, *keep, a.clock)
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(r)
		}
		a.say("%s: database %s, %d stored files (%s) listed", r.Dir, humanize.Bytes(uint64(r.DatabaseBytes)), r.Blobs, humanize.Bytes(uint64(r.BlobBytes)))
		for _, old := range r.Removed {
			a.say("removed %s", old)
		}
		return nil
	}
	return cmd
}

func (a *app) serveRestoreCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "restore", Short: "Put the database of a backup back; the server must be stopped", Args: cobra.NoArgs,
	}
	var data string
	dataFlag(cmd, &data)
	from := cmd.Flags().String("from", "", "the `folder` of a backup")
	yes := yesFlag(cmd)
	if err := cmd.MarkFlagRequired("from"); err != nil {
		panic(err) // the flag was made above
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.confirm(cmd.Context(), *yes, "Replace the database of "+data+"? What was written after the backup is lost."); err != nil {
			return err
		}
		if err := server.Restore(data, *from); err != nil {
			return err
		}
		a.say("%s has the database of %s", data, *from)
		return nil
	}
	return cmd
}

// serveRunningCmd is what an upgrade asks, as the server's user.
func (a *app) serveRunningCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "running", Short: "Print the version that serves on a data folder", Args: cobra.NoArgs, Hidden: true}
	var data string
	dataFlag(cmd, &data)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		version, err := server.Running(cmd.Context(), data)
		if err != nil {
			return err
		}
		a.say("%s", version)
		return nil
	}
	return cmd
}
