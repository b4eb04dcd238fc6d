package cli

import (
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"interlock.sh/server"
)

func (a *app) serveBackupCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "backup", Short: "Copy the database and the keys of a control plane, beside the running server, and list its files", Args: cobra.NoArgs,
		Long: "Write backups/<time>/ into the data folder:\n\n" +
			"  interlock.db       a whole copy of the database: accounts, keys, machines, tasks\n" +
			"  tls                the authority and key that machines pinned, the ACME account and its certificates\n" +
			"  releases/metadata  the signed releases\n" +
			"  blobs.txt          the stored files below files/blobs that belong to all of it\n\n" +
			"Stored files never change: copy those that are listed, and the folder, to another place. The folder holds\n" +
			"private keys: whoever reads it can pass for this server. Files that --tls-cert and --tls-key name are yours\n" +
			"to keep. Run it as the server's user. `interlock serve restore` puts a copy back, also on a new machine.",
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
		a.say("%s: %s, %d stored files (%s) listed", r.Dir, strings.Join(append([]string{"database " + humanize.Bytes(uint64(r.DatabaseBytes))}, r.Folders...), ", "),
			r.Blobs, humanize.Bytes(uint64(r.BlobBytes)))
		for _, old := range r.Removed {
			a.say("removed %s", old)
		}
		return nil
	}
	return cmd
}

func (a *app) serveRestoreCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "restore", Short: "Put a backup back; the server must be stopped", Args: cobra.NoArgs,
		Long: "Put a backup into a data folder, which may be empty; the server must be stopped.\n\n" +
			"The database is replaced, and what was written after the backup is lost. The keys of TLS and the signed\n" +
			"releases are put back where the data folder has none; what is there stays, since it may be newer. Copy the\n" +
			"stored files that blobs.txt lists to files/blobs. Run it as the server's user, and start the server with the\n" +
			"options that it had: machines then find the server that they know.",
		Example: "  interlock serve restore --data /var/lib/interlock --from /mnt/backup/20260301T033000.000Z",
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
		r, err := server.Restore(data, *from)
		if err != nil {
			return err
		}
		a.say("%s has %s of %s", data, strings.Join(append([]string{"the database"}, r.Folders...), ", "), *from)
		for _, name := range r.Kept {
			a.note("%s was there and stays; to take that of the backup, move it away and restore again", filepath.Join(data, name))
		}
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
