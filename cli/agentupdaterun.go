package cli

import (
	"time"

	"github.com/spf13/cobra"

	"interlock.sh/updater"
)

// updaterCmd is what the timer of the service manager starts. People see it in its unit and start it never.
func (a *app) updaterCmd() *cobra.Command {
	cmd := noun("updater", "The updater that the service manager starts", a.updaterRunCmd())
	cmd.Hidden = true
	return cmd
}

func (a *app) updaterRunCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "run", Short: "One pass: mend, go on with the update under way, look for a newer version", Args: cobra.NoArgs,
		Long: "One pass: mend, go on with the update under way, look for a newer version. Its times are set by a drop-in of\n" +
			"its unit that gives ExecStart again with other flags.",
	}
	var opts updater.Options
	f := cmd.Flags()
	f.StringVar(&opts.App, "app", "", "the app folder (the one that this program stands in)")
	f.DurationVar(&opts.Deadline, "deadline", updater.DefaultDeadline, "for a restarted agent to be well, else its version is reverted")
	f.DurationVar(&opts.Steady, "steady", updater.DefaultSteady, "how long it must stay well")
	f.DurationVar(&opts.ReachGrace, "reach-grace", updater.DefaultReachGrace, "past the deadline, for a heartbeat while the control plane answers this machine")
	f.DurationVar(&opts.MinEvery, "min-every", updater.DefaultMinEvery, "the least time between two looks for a newer version")
	f.DurationVar(&opts.LookEvery, "look-every", updater.DefaultLookEvery, "between two looks at the agents")
	selfTest := f.Bool("self-test", false, "look for a newer version on a copy of the trust state, change nothing, and print what was found")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, d := range []time.Duration{opts.Deadline, opts.Steady, opts.ReachGrace, opts.MinEvery, opts.LookEvery} {
			if d <= 0 {
				return usage("the times of the updater are lengths of time above zero, as in 30s; this is %v", d)
			}
		}
		m, err := a.thisUpdater(cmd.Context(), opts, nil)
		if err != nil {
			return err
		}
		defer m.close()
		if *selfTest {
			news, err := m.SelfTest(cmd.Context())
			if err != nil {
				return err
			}
			return a.printJSON(news)
		}
		if err := a.spread(cmd.Context()); err != nil {
			return err
		}
		_, err = m.Run(cmd.Context())
		return err
	}
	return cmd
}
