package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"interlock.sh/agent"
	"interlock.sh/agent/hardware"
	"interlock.sh/agent/supervise"
	"interlock.sh/fault"
	"interlock.sh/installer/service"
)

// readyWithin is how long a restart waits for the model: large weights load for minutes.
const (
	readyWithin        = 5 * time.Minute
	stopHardwareWithin = 3 * time.Minute
)

// taskWorker names the service of the worker.
var taskWorker = service.Spec{Kind: service.TaskWorker, App: "app"}

// onHardware makes a RunE of a verb about the worker of this machine.
func (a *app) onHardware(verb func(cmd *cobra.Command, home hardware.Home) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		home, err := hardware.DefaultHome()
		if err != nil {
			return err
		}
		return verb(cmd, home)
	}
}

func (a *app) hardwareRunCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "run", Short: "Run the worker in the foreground", Args: cobra.NoArgs}
	level := cmd.Flags().String("log-level", "info", "debug, info, warn or error")
	var policy supervise.Policy
	usual := policy.WithDefaults()
	cmd.Flags().DurationVar(&policy.ProbeEvery, "probe-every", usual.ProbeEvery, "how often a model server of its own that is idle is asked for one token")
	cmd.RunE = a.onHardware(func(cmd *cobra.Command, home hardware.Home) (err error) {
		var least slog.Level
		if err := least.UnmarshalText([]byte(*level)); err != nil {
			return usage("--log-level %s is none of debug, info, warn, error", *level)
		}
		if _, err := home.Settings(); err != nil { // before a log of it is begun
			return err
		}
		if err := os.MkdirAll(home.Logs(), 0o700); err != nil {
			return fault.Wrap(err, fault.Invalid, "%s cannot be made: %v", home.Logs(), err).WithHint("is the home folder writable?")
		}
		file, err := agent.OpenLog(home.Log())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		// A journal that goes away makes a write fail; it must not end the worker.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
		out := a.serviceLog(file)
		if isTerminal(a.Err) {
			out = file.Beside(a.Err)
		}
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
		w, err := hardware.New(cmd.Context(), hardware.Options{
			Home: home, Version: Version, Logger: agent.NewLogger(out, least), Clock: a.clock, Supervise: policy, Shim: []string{program, "run-child"},
		})
		if err != nil {
			return err
		}
		return w.Run(cmd.Context())
	})
	return cmd
}

func (a *app) hardwareStartCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "start", Short: "Start the worker in the background, until the machine restarts", Args: cobra.NoArgs}
	cmd.RunE = a.onHardware(func(cmd *cobra.Command, home hardware.Home) error {
		st, err := a.startHardware(cmd, home)
		if err != nil {
			return err
		}
		a.say("the worker runs (pid %d): %s", st.Process.PID, clean(st.Words))
		return nil
	})
	return cmd
}

func (a *app) startHardware(cmd *cobra.Command, home hardware.Home) (hardware.State, error) {
	program, err := os.Executable()
	if err != nil {
		return hardware.State{}, fmt.Errorf("find this program: %w", err)
	}
	// Through the link, so that the process list shows what is current, and an update takes hold.
	if link := home.Program(); sameFile(link, program) {
		program = link
	}
	return home.Start(cmd.Context(), a.clock, program, "hardware", "run")
}

func (a *app) hardwareStopCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "stop", Short: "Stop the worker after the work in hand; a boot service starts it again", Args: cobra.NoArgs}
	cmd.RunE = a.onHardware(func(cmd *cobra.Command, home hardware.Home) error {
		if err := home.Stop(cmd.Context(), a.clock, stopHardwareWithin); err != nil {
			return err
		}
		a.say("the worker has stopped")
		return nil
	})
	return cmd
}

func (a *app) hardwareRestartCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "restart", Short: "Start the worker anew after the work in hand; needs no root", Args: cobra.NoArgs,
		Long: "End the worker after the work in hand, have its boot service start it again, or start it without one, and\n" +
			"wait until its model is ready.",
	}
	cmd.RunE = a.onHardware(func(cmd *cobra.Command, home hardware.Home) error {
		st, err := a.restartHardware(cmd, home)
		if err != nil {
			return err
		}
		a.say("the worker is ready: version %s, pid %d, model %s, %d slots", st.Version, st.Process.PID, clean(st.Alias), st.Slots)
		return nil
	})
	return cmd
}

func (a *app) restartHardware(cmd *cobra.Command, home hardware.Home) (hardware.State, error) {
	before, err := home.State()
	if err != nil {
		return before, err
	}
	served := a.hardwareService()
	if served && !before.Running {
		return before, fault.New(fault.Unavailable, "the boot service does not run: %s", before.Words).
			WithHint("start it as root: systemctl start %s (macOS: launchctl kickstart system/%s)", taskWorker.Name(), taskWorker.Name())
	}
	if err := home.Stop(cmd.Context(), a.clock, stopHardwareWithin); err != nil {
		return before, err
	}
	if !served {
		if _, err := a.startHardware(cmd, home); err != nil {
			return before, err
		}
	}
	st, err := home.Await(cmd.Context(), a.clock, before.Process, readyWithin)
	if err == nil && (!st.Ready || st.Process == before.Process) {
		err = fault.New(fault.Unavailable, "the worker is not ready: %s", st.Words).WithHint("look: interlock hardware doctor")
	}
	return st, err
}

// hardwareService reports whether the worker has a boot service; a machine that cannot have one has none.
func (a *app) hardwareService() bool {
	host, err := service.ThisHost()
	return err == nil && host.Has(taskWorker)
}
