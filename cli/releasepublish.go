package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	programs "interlock.sh/fleet/build"
	"interlock.sh/release"
)

func (a *app) releaseBuildCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "build", Short: "Describe the programs of a folder as a release, checking names, platforms and versions", Args: cobra.NoArgs,
		Example: "  interlock release build --dist dist/assets --version 1.4.0",
	}
	dist := cmd.Flags().String("dist", "dist/assets", "`folder` of programs named <program>-<os>-<arch>; the description is written there")
	version := cmd.Flags().String("version", "", "semantic version of the release, without a v")
	if err := cmd.MarkFlagRequired("version"); err != nil {
		panic(err) // only for a flag that does not exist
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		d, err := release.Describe(*dist, *version)
		if err != nil {
			return err
		}
		if err := d.CheckVersions(cmd.Context(), *dist); err != nil {
			return err
		}
		path, err := d.Save(*dist)
		if err != nil {
			return err
		}
		for _, line := range d.Summary() {
			a.say("%s", line)
		}
		a.note("sign it: interlock release sign %s", path)
		return nil
	}
	return cmd
}

func (a *app) releaseSignCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "sign <release>", Short: "Sign a release with the targets key; it is not live before publish", Args: exactly(1),
		Example: "  interlock release sign dist/assets --stable 0 --canary 10\n" +
			"  interlock release sign dist/assets/release.json --security --min-version 1.2.0",
	}
	d := a.desk(cmd)
	f := cmd.Flags()
	stable := f.Int("stable", 100, "`percent` of all machines that are offered it")
	canary := f.Int("canary", 0, "`percent` of machines that are offered it as a canary, where the owner has not chosen stable")
	minVersion := f.String("min-version", "", "older programs than this `version` go to another version first")
	security := f.Bool("security", false, "it mends a weakness: a busy machine waits 30 minutes at most, not 6 hours")
	cmd.RunE = d.on(func(ctx context.Context, r *release.Repository, keys *release.Keyring, args []string) error {
		desc, dir, err := release.ReadDescription(args[0])
		if err != nil {
			return err
		}
		offer := release.Offer{Channels: map[string]int{programs.Stable: *stable}, MinVersion: *minVersion, Security: *security}
		if *canary > 0 || f.Changed("canary") {
			offer.Channels[programs.Canary] = *canary
		}
		added, err := r.Sign(ctx, desc, dir, offer, keys)
		if err != nil {
			return err
		}
		if added == 0 {
			a.say("all of %s is signed already", desc.Version)
			return nil
		}
		for _, line := range desc.Summary() {
			a.say("signed %s", line)
		}
		a.notLive()
		return nil
	})
	return cmd
}

func (a *app) notLive() {
	a.note("no machine sees it yet: interlock release publish")
}

func (a *app) sayPublished(p release.Published) {
	var parts []string
	for _, part := range []struct {
		role    string
		version int64
	}{{"root", p.Root}, {"targets", p.Targets}, {"snapshot", p.Snapshot}, {"timestamp", p.Timestamp}} {
		if part.version != 0 {
			parts = append(parts, part.role+" "+strconv.FormatInt(part.version, 10))
		}
	}
	if len(parts) == 0 {
		a.say("nothing new to publish")
		return
	}
	a.say("live: %s", strings.Join(parts, ", "))
}

func (a *app) releasePublishCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "publish", Short: "Make live what is signed; with --api also on a control plane", Args: cobra.NoArgs,
		Long: "Make live what is signed, in the repository folder; with --api (or --local) bring it to that control plane too.\n\n" +
			"A control plane gets the programs that it lacks, then the metadata, and shows none of it before all of it is\n" +
			"there and verified. Repeat the command when it was broken off. It holds no key: it can only pass on.",
		Example: "  interlock release publish --api https://fleet.example.com",
	}
	cmd.RunE = a.goesLive(cmd, (*release.Repository).Publish)
	return cmd
}

func (a *app) releaseRefreshCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "refresh", Short: "Renew the timestamp, and what else is near its end; publishes nothing new", Args: cobra.NoArgs,
		Example: "  interlock release refresh --api https://fleet.example.com --passphrase-fd 3 3</run/secrets/release",
	}
	cmd.RunE = a.goesLive(cmd, (*release.Repository).Refresh)
	return cmd
}

// goesLive is a verb that changes what is live and may bring it to a control plane.
func (a *app) goesLive(cmd *cobra.Command, do func(r *release.Repository, ctx context.Context, keys *release.Keyring) (release.Published, error)) func(*cobra.Command, []string) error {
	d := a.desk(cmd)
	return d.on(func(ctx context.Context, r *release.Repository, keys *release.Keyring, _ []string) error {
		out, err := do(r, ctx, keys)
		if err != nil {
			return err
		}
		a.sayPublished(out)
		if a.flags.API == "" && !a.flags.Local {
			return nil
		}
		s, err := a.connect()
		if err != nil {
			return err
		}
		defer s.Client.Close()
		err = r.Upload(ctx, s.Client, func(program string) { a.note("%s is on the server", program) })
		if err != nil {
			a.note("live in %s and not on %s: repeat the command to go on", d.repository, s.BaseURL())
			return s.how.Explain(err)
		}
		a.say("%s has it", s.BaseURL())
		return nil
	})
}

// programFlag names the program that a version is of.
func programFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("program", programs.Interlock, "the `program`: "+strings.Join(programs.Programs(), ", "))
}

func (a *app) releaseYankCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "yank <version>", Short: "Withdraw a version: no machine installs it any more", Args: exactly(1),
		Example: "  interlock release yank 1.4.0 --reason 'loses the queue on restart'",
	}
	d, program := a.desk(cmd), programFlag(cmd)
	reason := cmd.Flags().String("reason", "", "why, in one line; machines show it")
	cmd.RunE = d.on(func(ctx context.Context, r *release.Repository, keys *release.Keyring, args []string) error {
		n, err := r.Yank(ctx, *program, args[0], *reason, keys)
		if err != nil {
			return err
		}
		a.saidOf(*program, args[0], "withdrawn", n)
		return nil
	})
	return cmd
}

func (a *app) releaseShareCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "set <channel> <percent>", Short: "Offer a version to that share of a channel's machines", Args: exactly(2),
		Long: "Offer a version to that share of a channel's machines.\n\n" +
			"stable is for all machines. canary is for those of which a lot by machine and version says so: a growing\n" +
			"percentage only adds machines. An owner may also choose stable (no canary) or canary (every one).",
		Example: "  interlock release channel set canary 10 --version 1.4.0\n  interlock release channel set stable 100 --version 1.4.0",
	}
	d, program := a.desk(cmd), programFlag(cmd)
	version := cmd.Flags().String("version", "", "the version")
	if err := cmd.MarkFlagRequired("version"); err != nil {
		panic(err) // only for a flag that does not exist
	}
	set := d.on(func(ctx context.Context, r *release.Repository, keys *release.Keyring, args []string) error {
		percent, err := strconv.Atoi(strings.TrimSuffix(args[1], "%"))
		if err != nil {
			return usage("%q is no percentage", args[1])
		}
		n, err := r.SetShare(ctx, *program, *version, args[0], percent, keys)
		if err != nil {
			return err
		}
		a.saidOf(*program, *version, fmt.Sprintf("for %d%% of %s", percent, args[0]), n)
		return nil
	})
	cmd.RunE = set
	return cmd
}

func (a *app) saidOf(program, version, what string, platforms int) {
	if platforms == 0 {
		a.say("%s %s is %s already", program, version, what)
		return
	}
	on := fmt.Sprintf("%d platforms", platforms)
	if platforms == 1 {
		on = "1 platform"
	}
	a.say("%s %s is %s, on %s", program, version, what, on)
	a.notLive()
}

func (a *app) releaseStatusCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "Show what is signed, what is live, and what expires when", Args: cobra.NoArgs}
	d, asJSON := a.desk(cmd), jsonFlag(cmd)
	cmd.RunE = d.on(func(_ context.Context, r *release.Repository, keys *release.Keyring, _ []string) error {
		s, err := r.Status(keys)
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(s)
		}
		var rows [][]string
		for _, role := range s.Roles {
			rows = append(rows, []string{role.Role, strconv.FormatInt(role.Version, 10), role.Expires.Format("2006-01-02 15:04 UTC"), fmt.Sprintf("%d of %d keys", role.Threshold, role.Keys)})
		}
		a.table([]string{"ROLE", "VERSION", "EXPIRES", "SIGNED BY"}, rows)
		a.releasedTable(s)
		for _, w := range s.Warnings {
			a.note("warning: %s", w)
		}
		if s.Pending {
			a.notLive()
		}
		return nil
	})
	return cmd
}

func (a *app) releasedTable(s release.Status) {
	if len(s.Releases) == 0 {
		a.empty("nothing is signed yet: interlock release build, then sign")
		return
	}
	fmt.Fprintln(a.Out)
	var rows [][]string
	for _, r := range s.Releases {
		var offered []string
		for _, channel := range slices.Sorted(maps.Keys(r.Channels)) {
			offered = append(offered, fmt.Sprintf("%s %d%%", channel, r.Channels[channel]))
		}
		state := strings.Join(offered, ", ")
		if r.Yanked != "" {
			state = "withdrawn: " + r.Yanked
		}
		rows = append(rows, []string{r.Program, r.Version, r.Platform(), humanize.Bytes(uint64(max(r.Size, 0))), state})
	}
	a.table([]string{"PROGRAM", "VERSION", "PLATFORM", "SIZE", "OFFERED"}, rows)
}
