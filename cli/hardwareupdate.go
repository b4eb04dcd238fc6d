package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"interlock.sh/agent"
	"interlock.sh/agent/hardware"
	"interlock.sh/updater"
)

func (a *app) hardwareUpdateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "update", Short: "Bring in the newest signed release, and go back when the worker does not get ready with it", Args: cobra.NoArgs,
	}
	version := cmd.Flags().String("to", "", "this version instead of the newest")
	force := cmd.Flags().Bool("force", false, "take a version that failed on this machine before")
	cmd.RunE = a.onHardware(func(cmd *cobra.Command, home hardware.Home) error {
		return a.withUpdater(cmd, home, true, func(u *updater.Updater) (updater.News, error) {
			return u.Now(cmd.Context(), updater.NowOptions{Version: *version, Force: *force})
		})
	})
	return cmd
}

func (a *app) hardwareRollbackCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "rollback", Short: "Go back to the version before", Args: cobra.NoArgs}
	cmd.RunE = a.onHardware(func(cmd *cobra.Command, home hardware.Home) error {
		return a.withUpdater(cmd, home, false, func(u *updater.Updater) (updater.News, error) { return u.Rollback(cmd.Context()) })
	})
	return cmd
}

func (a *app) withUpdater(cmd *cobra.Command, home hardware.Home, asked bool, do func(*updater.Updater) (updater.News, error)) error {
	s, err := home.Settings()
	if err != nil {
		return err
	}
	c, err := a.hardwareClient(s)
	if err != nil {
		return err
	}
	defer c.Close()
	u, err := updater.New(updater.Options{
		App: home.App(), Origins: []updater.Origin{{Name: s.URL, Client: c}}, Services: hardwareServices{a, cmd, home},
		Machine: s.Worker, Root: updater.BuiltIn(), Clock: a.clock, Logger: agent.NewLogger(a.Err, 0),
		Try: startsUp,
	})
	if err != nil {
		return err
	}
	news, err := do(u)
	if err != nil {
		return err
	}
	a.say("%s: version %s", clean(news.Report.State), clean(news.Current))
	if news.Report.Why != "" {
		a.note("%s", clean(news.Report.Why))
	}
	return updateEnd(news, asked)
}

// updateEnd is the exit code of an update by hand: one that was asked for and was reverted did not come about.
func updateEnd(n updater.News, asked bool) error {
	if asked && n.Report.State == updater.Reverted {
		return &exit{ExitError}
	}
	return nil
}

// hardwareServices are the one service that runs out of the worker's app folder.
type hardwareServices struct {
	a    *app
	cmd  *cobra.Command
	home hardware.Home
}

// Subjects is the worker, when it runs or has a boot service.
func (h hardwareServices) Subjects(context.Context) ([]updater.Subject, error) {
	st, err := h.home.State()
	if err != nil {
		return nil, err
	}
	if !st.Running && !h.a.hardwareService() {
		return nil, nil
	}
	return []updater.Subject{h}, nil
}

// Name is the service's.
func (h hardwareServices) Name() string { return taskWorker.Name() }

// Health is what the worker says of itself.
func (h hardwareServices) Health(context.Context) (updater.Health, error) {
	st, err := h.home.State()
	if err != nil {
		return updater.Health{}, err
	}
	return hardwareHealth(st), nil
}

// hardwareHealth is what an update wants to know of a worker's state. A model that still loads, however long, is
// not lost.
func hardwareHealth(st hardware.State) updater.Health {
	h := updater.Health{Up: st.Running, Version: st.Version, Busy: st.Busy > 0, Why: st.Words}
	if st.Seen != nil {
		h.Heartbeat = *st.Seen
	}
	switch {
	case !st.Running || st.Stuck:
		h.Lost = []string{st.Alias}
	case st.Ready:
		h.Children, h.Why = []string{st.Alias}, ""
	default:
		h.Children = []string{st.Alias}
	}
	return h
}

// Restart ends the worker after the work in hand; its service starts what current names, and without a
// service this program does.
func (h hardwareServices) Restart(ctx context.Context, within time.Duration) error {
	if err := h.home.Stop(ctx, h.a.clock, max(within, stopHardwareWithin)); err != nil {
		return err
	}
	if h.a.hardwareService() {
		return nil
	}
	_, err := h.a.startHardware(h.cmd, h.home)
	return err
}

// Reach asks the control plane from this process.
func (h hardwareServices) Reach(ctx context.Context) error {
	s, err := h.home.Settings()
	if err != nil {
		return err
	}
	c, err := h.a.hardwareClient(s)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Healthy(ctx); err != nil {
		return fmt.Errorf("reach the control plane: %w", err)
	}
	return nil
}
