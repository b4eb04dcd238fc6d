package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"interlock.sh/agent"
	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/hostfacts"
	"interlock.sh/agent/localapi"
	"interlock.sh/agent/supervise"
	"interlock.sh/fleet"
	"interlock.sh/updater"
)

func (a *app) agentCmd() *cobra.Command {
	return noun("agent", "Run and operate the host agent of this machine",
		a.agentEnrollCmd(), a.agentRunCmd(), a.agentStartCmd(), a.agentStopCmd(), a.agentStatusCmd(),
		a.agentModeCmd("pause", "Stop the model servers and take no work, until resume", fleet.Paused),
		a.agentModeCmd("drain", "Finish the work in hand and take no more; models stay loaded", fleet.Draining),
		a.agentModeCmd("resume", "Work again, within the hours from before", fleet.Active), a.agentHoursCmd(),
		a.agentLogsCmd(), a.agentDoctorCmd(), a.agentServiceCmd(), a.agentUpdateCmd(), a.agentUninstallCmd())
}

// runChildCmd is the shim between the agent and a child on systems without a parent-death signal. It is
// started by the agent, not by people.
func (a *app) runChildCmd() *cobra.Command {
	return &cobra.Command{
		Use: "run-child", Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := supervise.RunChild(args); code != ExitOK {
				return &exit{code}
			}
			return nil
		},
	}
}

// enrolled is which enrollment of this machine a verb is about.
type enrolled struct {
	group, role string
}

func enrolledFlags(cmd *cobra.Command) *enrolled {
	var e enrolled
	cmd.Flags().StringVar(&e.group, "group", "", "the group, by name or id; needed when this machine has several")
	cmd.Flags().StringVar(&e.role, "role", "", "client or trainer; needed when this machine has both")
	return &e
}

func (e *enrolled) find() (enrollment.Enrollment, error) {
	home, err := enrollment.DefaultHome()
	if err != nil {
		return enrollment.Enrollment{}, err
	}
	return home.Find(e.group, fleet.Role(e.role))
}

// reach is find for verbs that need the agent or its folder only: a damaged enrollment will do.
func (e *enrolled) reach() (enrollment.Enrollment, error) {
	home, err := enrollment.DefaultHome()
	if err != nil {
		return enrollment.Enrollment{}, err
	}
	return home.Reach(e.group, fleet.Role(e.role))
}

// door is the local API of the enrollment's agent.
func (e *enrolled) door() (*localapi.Client, enrollment.Enrollment, error) {
	en, err := e.reach()
	if err != nil {
		return nil, en, err
	}
	door, err := agent.Door(en)
	return door, en, err
}

// here is one enrollment of this machine; what is damaged of it is in Why.
type here = enrollment.Damaged

// survey is every enrollment of this machine that the flags mean, the damaged ones last: their agents may run
// all the same. none says what to tell where there is none, and is nil otherwise.
func (e *enrolled) survey() (all []here, none, err error) {
	home, err := enrollment.DefaultHome()
	if err != nil {
		return nil, nil, err
	}
	whole, damaged, err := home.Survey()
	if err != nil {
		return nil, nil, err
	}
	for _, w := range whole {
		if w.Means(e.group, fleet.Role(e.role)) {
			all = append(all, here{Enrollment: w})
		}
	}
	for _, d := range damaged {
		if d.Means(e.group, fleet.Role(e.role)) {
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		_, none = home.Find(e.group, fleet.Role(e.role))
	}
	return all, none, nil
}

func (a *app) agentEnrollCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "enroll", Short: "Make this machine a member of a model group", Args: cobra.NoArgs,
		Long: "Trade a bootstrap key, read from standard input, for this machine's own credential.\n" +
			"A machine that is enrolled already keeps its credential and needs no key.",
	}
	var req enrollment.Request
	var role, runtime string
	var fromStdin bool
	f := cmd.Flags()
	f.StringVar(&req.Origin, "url", "", "the control plane")
	f.StringVar(&req.Group, "group", "", "the group, by name or id")
	f.StringVar(&role, "role", "", "client or trainer")
	f.StringVar(&runtime, "runtime", "", "llama.cpp or mlx-lm; fixed when the machine is enrolled (llama.cpp)")
	f.StringVar(&req.Name, "name", "", "what people call this machine (its host name)")
	f.BoolVar(&fromStdin, "key-stdin", false, "read the bootstrap key from standard input; an empty line is no key")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		req.Role, req.Runtime, req.Pin, req.InsecureHTTP, req.Version = fleet.Role(role), fleet.Runtime(runtime), a.flags.Pin, a.flags.InsecureHTTP, Version
		home, err := enrollment.DefaultHome()
		if err != nil {
			return err
		}
		if fromStdin {
			line, err := bufio.NewReader(a.In).ReadString('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("read the key: %w", err)
			}
			req.Key = strings.TrimSpace(line)
		}
		req.HostID = hostfacts.ID(cmd.Context())
		req.Host = hostfacts.Collect(cmd.Context(), string(home))
		if req.Name == "" {
			req.Name = req.Host.Hostname
		}
		res, err := home.Enroll(cmd.Context(), req)
		if err != nil {
			return err
		}
		if res.Note != "" {
			a.note("%s", res.Note)
		}
		word := "enrolled"
		if res.Kept {
			word = "already enrolled"
		}
		a.say("%s as %s in group %s (%s), role %s", word, clean(res.Name), clean(res.GroupName), res.Group, res.Role)
		a.trustReleases(cmd.Context(), res.Enrollment)
		return nil
	}
	return cmd
}

func (a *app) agentRunCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "run", Short: "Run the agent in the foreground", Args: cobra.NoArgs}
	en := enrolledFlags(cmd)
	level := cmd.Flags().String("log-level", "info", "debug, info, warn or error")
	logFile := cmd.Flags().Bool("log-file", false, "write the log to the role's folder, where `interlock agent logs` reads; a service does")
	var policy supervise.Policy
	usual := policy.WithDefaults()
	cmd.Flags().DurationVar(&policy.ProbeEvery, "probe-every", usual.ProbeEvery, "how often a model server that is idle is asked for one token")
	cmd.Flags().DurationVar(&policy.ProbeWithin, "probe-within", usual.ProbeWithin, "how long that may take before it counts as hung")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		e, err := en.find()
		if err != nil {
			return err
		}
		var least slog.Level
		if err := least.UnmarshalText([]byte(*level)); err != nil {
			return usage("--log-level %s is none of debug, info, warn, error", *level)
		}
		if policy.ProbeEvery < 0 || policy.ProbeWithin < 0 {
			return usage("--probe-every and --probe-within are lengths of time, as in 30s")
		}
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
		out := a.Err
		args := []string{"agent", "run", "--group", e.Group, "--role", string(e.Role), "--log-level", *level,
			"--probe-every", policy.ProbeEvery.String(), "--probe-within", policy.ProbeWithin.String()}
		if *logFile {
			args = append(args, "--log-file")
			// A journal that goes away makes a write fail; it must not end the agent.
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
			file, err := agent.OpenLogFile(e)
			if err != nil {
				return err
			}
			defer file.Close() //nolint:errcheck // every record is written by itself
			out = a.serviceLog(file)
		}
		var hangups chan os.Signal
		if !a.atTerminal() { // there it means that the terminal was closed
			hangups = make(chan os.Signal, 1)
			signal.Notify(hangups, syscall.SIGHUP)
			defer signal.Stop(hangups)
		}
		ag, err := agent.New(cmd.Context(), agent.Options{
			Enrollment: e, Version: Version, Logger: agent.NewLogger(out, least), Supervise: policy,
			Shim: []string{program, "run-child"}, Program: program, Args: args, Hangup: hangups,
			Update: func() *fleet.UpdateReport { return updater.LastReport(filepath.Dir(filepath.Dir(program))) },
		})
		if err != nil {
			return err
		}
		if err := agent.RecordPid(e); err != nil {
			return err
		}
		return ag.Run(cmd.Context())
	}
	return cmd
}

func (a *app) agentStartCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "start", Short: "Start the agent in the background; one of another version makes way", Args: cobra.NoArgs}
	en := enrolledFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		e, err := en.find()
		if err != nil {
			return err
		}
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
		// Through the link of its app folder, so that the process list shows what is current.
		if link := agent.CurrentProgram(program); sameFile(link, program) {
			program = link
		}
		st, err := agent.StartDetached(cmd.Context(), e, agent.Launch{
			Program: program, Args: []string{"agent", "run", "--group", e.Group, "--role", string(e.Role), "--log-file"}, Version: Version,
			Replaces: func(old string) {
				a.note("the agent that runs is of version %s: it finishes its work, then version %s takes its place", clean(old), Version)
			},
		})
		if err != nil {
			return err
		}
		a.say("the agent of group %s, role %s runs (pid %d): %s", clean(e.GroupName), e.Role, st.Pid, clean(st.Words))
		return nil
	}
	return cmd
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

func (a *app) agentStopCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "stop", Short: "Stop the agent after the work in hand", Args: cobra.NoArgs}
	en := enrolledFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		e, err := en.reach()
		if err != nil {
			return err
		}
		if err := agent.StopDetached(cmd.Context(), e); err != nil {
			return err
		}
		a.say("the agent of group %s, role %s has stopped", clean(e.GroupName), e.Role)
		a.noteService(e)
		return nil
	}
	return cmd
}

func (a *app) agentStatusCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "Show every enrollment of this machine, or one", Args: cobra.NoArgs}
	en, asJSON := enrolledFlags(cmd), jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all, none, err := en.survey()
		if err != nil {
			return err
		}
		var out []localapi.Status
		damaged := false
		for _, e := range all {
			out = append(out, statusHere(cmd.Context(), e))
			damaged = damaged || e.Why != nil
		}
		switch {
		case *asJSON:
			if err := a.printJSON(map[string]any{"agents": some(out)}); err != nil {
				return err
			}
		case none == nil:
			a.agentTable(out)
		case en.group+en.role != "":
			a.empty("this machine is enrolled in other groups or roles, or in none: `interlock agent status` without --group and --role shows them")
		default:
			a.empty("this machine is not enrolled: paste the line that `interlock models key rotate client --group <group>` prints")
		}
		if damaged {
			return &exit{ExitError}
		}
		return nil
	}
	return cmd
}

// statusHere is statusOf for an enrollment that may be damaged, which is said with it.
func statusHere(ctx context.Context, e here) localapi.Status {
	st := statusOf(ctx, e.Enrollment)
	switch {
	case e.Why == nil:
	case st.Pid == 0 && st.State.Kind == fleet.StateOffline:
		st.Words, st.LastError = "damaged, and not running", e.Why.Error()
	case st.LastError == "":
		st.LastError = e.Why.Error()
	default:
		st.LastError = e.Why.Error() + "; " + st.LastError
	}
	return st
}

// statusOf asks an agent, or says that it does not run.
func statusOf(ctx context.Context, e enrollment.Enrollment) localapi.Status {
	door, err := agent.Door(e)
	if err == nil {
		var st localapi.Status
		if st, err = door.Status(ctx); err == nil {
			return st
		}
	}
	return localapi.Status{
		Group: e.Group, GroupName: e.GroupName, Role: e.Role, Origin: e.Origin, Machine: e.Machine,
		State: fleet.State{Kind: fleet.StateOffline}, Words: "not running", LastError: err.Error(),
	}
}

func (a *app) agentTable(all []localapi.Status) {
	var rows [][]string
	for _, st := range all {
		var models []string
		var speed *float64
		for _, d := range st.Report.Deployments {
			models = append(models, d.Alias+" "+d.State.String())
			if d.TokensPerSecond != nil {
				speed = d.TokensPerSecond
			}
		}
		pid := ""
		if st.Pid > 0 {
			pid = strconv.Itoa(st.Pid)
		}
		rows = append(rows, []string{st.GroupName + "/" + string(st.Role), st.Words, strings.Join(models, ", "), rate(speed), pid, a.ago(st.LastSeen), st.Origin})
	}
	a.table([]string{"GROUP/ROLE", "STATE", "MODELS", "TOK/S", "PID", "REPORTED", "CONTROL PLANE"}, rows)
	for _, st := range all {
		if st.LastError != "" {
			a.note("%s/%s: %s", clean(st.GroupName), st.Role, clean(st.LastError))
		}
		a.warnings(st)
	}
}

// warnings are what an agent reports about its machine, such as a limit of its owner's that does not hold.
func (a *app) warnings(st localapi.Status) {
	for _, w := range st.Report.Warnings {
		a.note("%s/%s: warning: %s", clean(st.GroupName), st.Role, clean(w))
	}
}

func (a *app) agentLogsCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "logs", Short: "Show the newest lines of the agent's log, or of a model server's", Args: cobra.NoArgs}
	en := enrolledFlags(cmd)
	deployment := cmd.Flags().String("deployment", "", "a model on this machine, by alias or id")
	lines := cmd.Flags().Int("lines", 50, "how many, up to 1000")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		door, _, err := en.door()
		if err != nil {
			return err
		}
		logs, err := door.Logs(cmd.Context(), *deployment, *lines)
		if err != nil {
			return err
		}
		for _, l := range logs.Lines {
			a.say("%s", clean(l))
		}
		return nil
	}
	return cmd
}
