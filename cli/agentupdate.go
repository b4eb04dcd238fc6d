package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"interlock.sh/agent"
	"interlock.sh/agent/enrollment"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	programs "interlock.sh/fleet/build"
	"interlock.sh/updater"
)

// byLot is what the owner types for the channel that goes by lot.
const byLot = "lot"

func (a *app) agentUpdateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "update", Short: "Show, look for, bring in or undo updates of this machine's programs", Args: cobra.NoArgs,
		Long: "Without a flag, say how the programs of this machine stand. Where its agents are services, a timer looks for\n" +
			"updates three times an hour; installed with --no-service, they come by --now alone. A new version is watched,\n" +
			"and the last good one is brought back when it does not do its work.",
	}
	f := cmd.Flags()
	check := f.Bool("check", false, "ask the control planes for a newer version, and change nothing")
	now := f.Bool("now", false, "bring in the newest version after the work in hand, whatever the hour")
	rollback := f.Bool("rollback", false, "go back to the previous version; the one that is left is not taken again by itself")
	version := f.String("version", "", "with --now: this version; a lower one keeps the higher ones out")
	force := f.Bool("force", false, "with --now --version: also one that failed here before")
	channel := f.String("channel", "", "with --now: from now on "+programs.Stable+", "+programs.Canary+", or "+byLot+" (the release decides which machines go first)")
	asJSON := jsonFlag(cmd)
	cmd.MarkFlagsMutuallyExclusive("check", "now", "rollback")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !*now && (*version != "" || *force || *channel != "") {
			return usage("--version, --force and --channel go with --now")
		}
		if *force && *version == "" {
			return usage("--force goes with --version")
		}
		m, err := a.thisUpdater(cmd.Context(), updater.Options{}, a.progress(*asJSON))
		if err != nil {
			return err
		}
		defer m.close()
		var news updater.News
		switch {
		case *check:
			news, err = m.Check(cmd.Context())
		case *now:
			opts := updater.NowOptions{Version: *version, Force: *force}
			if *channel != "" {
				c := strings.TrimPrefix(*channel, byLot)
				opts.Channel = &c
			}
			news, err = m.Now(cmd.Context(), opts)
		case *rollback:
			news, err = m.Rollback(cmd.Context())
		default:
			news, err = m.Last()
		}
		return a.showUpdate(news, err, *now, *asJSON)
	}
	return cmd
}

// progress tells a person each step; a reader of JSON gets the end alone.
func (a *app) progress(asJSON bool) func(fleet.UpdateReport) {
	if asJSON {
		return nil
	}
	return func(r fleet.UpdateReport) { a.note("%s", updateWords(r)) }
}

// updateWords is a report in one line.
func updateWords(r fleet.UpdateReport) string {
	words := strings.TrimSpace(r.State + " " + r.Version)
	if r.Why != "" {
		words += ": " + r.Why
	}
	return words
}

// showUpdate prints how the folder stands, and then what went wrong. asked is for an update that was asked for.
func (a *app) showUpdate(n updater.News, err error, asked, asJSON bool) error {
	if err != nil && n.Current == "" { // it did not come so far
		return err
	}
	if asJSON {
		if printed := a.printJSON(n); printed != nil {
			return printed
		}
	} else {
		a.updateFacts(n)
	}
	if err == nil {
		err = updateEnd(n, asked)
	}
	return err
}

func (a *app) updateFacts(n updater.News) {
	state := "nobody has looked for updates yet"
	if n.Report.State != "" {
		state = updateWords(n.Report) + ", " + a.ago(&n.Report.At)
	}
	channel := n.Channel
	if channel == "" {
		channel = byLot
	}
	a.facts("version", n.Current, "previous", n.Previous, "newest", n.Newest, "updates", state, "channel", channel, "looked", a.ago(n.Reached))
	for _, m := range n.Mirrors {
		word := "ok"
		if !m.OK {
			word = m.Why
		}
		a.say("from %s: %s", m.Name, word)
	}
	for _, v := range sortedVersions(n.Quarantined) {
		a.say("not taken: %s: %s", v, n.Quarantined[v])
	}
}

// machineUpdater is the updater of an app folder with the connections that it uses.
type machineUpdater struct {
	*updater.Updater
	clients []*client.Client
}

func (m *machineUpdater) close() {
	for _, c := range m.clients {
		c.Close()
	}
}

// thisUpdater makes the updater of an app folder of this machine: its mirrors are the origins of the
// enrollments that belong to it, and its services their agents. opts name the folder, "" for the one that
// this program stands in, and its times.
func (a *app) thisUpdater(ctx context.Context, opts updater.Options, progress func(fleet.UpdateReport)) (*machineUpdater, error) {
	home, err := enrollment.DefaultHome()
	if err != nil {
		return nil, err
	}
	if opts.App == "" {
		if opts.App, err = appFolder(home); err != nil {
			return nil, err
		}
	}
	log := agent.NewLogger(a.Err, slog.LevelInfo)
	if progress != nil { // a person reads the steps instead
		log = slog.New(slog.DiscardHandler)
	}
	all, damaged, err := home.Survey()
	if err != nil {
		return nil, err
	}
	m := &machineUpdater{}
	opts.Root, opts.Clock, opts.Logger, opts.Progress, opts.Try = updater.BuiltIn(), a.clock, log, progress, startsUp
	opts.Prove, opts.VersionOf = looksForUpdates(home, opts.App), saysVersion
	opts.Bundle = nightshiftApp(home, opts.App)
	agents := &agents{app: opts.App, log: log, confined: inTimersUnit("/proc/self/cgroup")}
	origins := map[string]bool{} // by address: whether it belongs to the folder
	for _, e := range all {
		belongs, asked := origins[e.Origin]
		if !asked {
			o, err := mirror(e.Origin, e.Pin, e.InsecureHTTP)
			if err != nil {
				log.WarnContext(ctx, "an origin is passed over", "origin", e.Origin, "error", err)
				origins[e.Origin] = false
				continue
			}
			m.clients = append(m.clients, o.Client)
			if belongs, err = updater.Belongs(ctx, string(home), opts.App, o); err != nil {
				m.close()
				return nil, err
			}
			if origins[e.Origin] = belongs; belongs {
				opts.Origins = append(opts.Origins, o)
			}
		}
		if belongs {
			agents.all = append(agents.all, e)
		}
	}
	if len(agents.all) > 0 {
		opts.Machine = agents.all[0].Machine
	}
	for _, d := range damaged {
		log.WarnContext(ctx, "an enrollment is damaged", "group", d.Group, "role", d.Role, "error", d.Why)
		agents.damaged, opts.Unread = append(agents.damaged, d), d.Why
	}
	opts.Services, opts.Rate = agents, agents.limit(a.clock)
	m.Updater, err = updater.New(opts)
	return m, err
}

// nightshiftApp is the menu-bar app of macOS, which stands in no app folder. There is one a user, whichever
// control plane it came from, so the common folder's updater keeps it.
func nightshiftApp(home enrollment.Home, app string) *updater.Bundle {
	user, err := os.UserHomeDir()
	if err != nil || runtime.GOOS != "darwin" || filepath.Clean(app) != filepath.Join(string(home), "app") {
		return nil
	}
	return &updater.Bundle{Program: programs.Nightshift, Path: filepath.Join(user, "Applications", "Nightshift.app")}
}

// mirror is an origin without a credential: releases are for everybody, and their signatures are what counts.
func mirror(url, pin string, insecure bool) (updater.Origin, error) {
	c, err := client.New(client.Options{BaseURL: url, Pin: pin, InsecureHTTP: insecure, UserAgent: "interlock-updater/" + Version})
	if err != nil {
		return updater.Origin{}, err
	}
	return updater.Origin{Name: c.BaseURL(), Client: c}, nil
}

// appFolder is the app folder that this program stands in, else the common one.
func appFolder(home enrollment.Home) (string, error) {
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	app := filepath.Dir(filepath.Dir(program))
	if _, ok := programs.ReadApp(filepath.Base(app)); ok {
		if real, err := filepath.EvalSymlinks(string(home)); err == nil && filepath.Dir(app) == real {
			return filepath.Join(string(home), filepath.Base(app)), nil
		}
	}
	app = filepath.Join(string(home), programs.AppFolder)
	if _, err := os.Lstat(filepath.Join(app, "current")); errors.Is(err, os.ErrNotExist) {
		return "", fault.New(fault.NotFound, "%s holds no programs: this one (%s) was installed in another way", app, program).
			WithHint("interlock update brings in a newer one; where a package installed it, update the package")
	}
	return app, nil
}
