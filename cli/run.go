package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"interlock.sh/cli/profile"
	"interlock.sh/fault"
	"interlock.sh/internal/clock"
)

// Exit codes.
const (
	ExitOK    = 0
	ExitError = 1
	ExitUsage = 2 // the command line itself is wrong
)

// Stdio is where a command reads and writes. Results go to Out and everything else to Err, so that Out
// can be redirected.
type Stdio struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// Env is what the process finds around it.
type Env struct {
	profile.Env
	Program string // argv[0]
	// Interrupt delivers the interrupts after the first, which ends the context; nil when there are none.
	Interrupt <-chan os.Signal
}

// Run runs one command line, without the program's name, and returns its exit code.
func Run(ctx context.Context, args []string, stdio Stdio, env Env) int {
	out := &watched{Writer: stdio.Out}
	stdio.Out = out
	a := &app{Stdio: stdio, env: env, clock: clock.System}
	a.flags.Program = env.Program
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdio.In)
	root.SetOut(stdio.Out)
	root.SetErr(stdio.Err)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil && out.err != nil { // a key that is shown once must not be lost without a word
		err = fmt.Errorf("write the output: %w", out.err)
	}
	var ended *exit
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &ended):
		return ended.code
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(stdio.Err, "interlock: interrupted")
		return ExitError
	}
	var use *usageError
	if !errors.As(err, &use) && !a.started { // cobra refused the line before a verb began
		use = &usageError{err.Error()}
	}
	if use != nil {
		fmt.Fprintf(stdio.Err, "interlock: %s\n        see `%s --help`\n", clean(use.Error()), cmd.CommandPath())
		return ExitUsage
	}
	printError(stdio.Err, err)
	return ExitError
}

// app is one run of the program.
type app struct {
	Stdio
	env     Env
	clock   clock.Clock
	flags   profile.Flags
	started bool // a verb has begun: errors are its own from here on
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "interlock",
		Short:         "Interlock: your machines as one model fleet",
		Version:       Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // so that an unknown verb is refused in our words
		RunE:          group,
	}
	root.SetVersionTemplate("interlock {{.Version}} · " + runtime.Version() + "\n")
	f := root.PersistentFlags()
	f.StringVar(&a.flags.API, "api", "", "control plane to talk to (then INTERLOCK_URL, the profile, "+profile.DefaultAPI+")")
	f.StringVar(&a.flags.Project, "project", "", "project to work in (then the key's, the profile's)")
	f.StringVar(&a.flags.Pin, "pin", "", "trust the server by its key: sha256//…, as the server prints it")
	f.BoolVar(&a.flags.Local, "local", false, "use the local profile, as "+profile.LocalProgram+" does")
	f.BoolVar(&a.flags.InsecureHTTP, "insecure-http", false, "accept plain http to another machine")
	root.AddGroup(
		&cobra.Group{ID: "fleet", Title: "Models and machines:"},
		&cobra.Group{ID: "work", Title: "Work:"},
		&cobra.Group{ID: "account", Title: "Account and project:"},
		&cobra.Group{ID: "program", Title: "Programs:"},
	)
	for id, cmds := range map[string][]*cobra.Command{
		"account": {a.loginCmd(), a.whoamiCmd(), a.projectsCmd(), a.keysCmd(), a.versionCmd()},
		"fleet":   {a.modelsCmd(), a.hardwareCmd()},
		"work":    {a.askCmd(), a.runsCmd(), a.usageCmd(), a.tasksCmd()},
		"program": {a.serveCmd(), a.adminCmd(), a.agentCmd(), a.updateCmd(), a.updaterCmd(), a.programReleaseCmd()},
	} {
		for _, c := range cmds {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	root.AddCommand(a.runChildCmd())
	a.mark(root)
	return root
}

// mark makes every verb note that it has begun: what fails before, flag rules included, is a wrong
// command line.
func (a *app) mark(cmd *cobra.Command) {
	if verb := cmd.RunE; verb != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			a.started = true
			return verb(cmd, args)
		}
	}
	for _, c := range cmd.Commands() {
		a.mark(c)
	}
}

// group is what a noun without a verb does: help, or a refusal of a verb that does not exist.
func group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	text := fmt.Sprintf("%q is no command of %s", args[0], cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usage("%s", text)
}

// noun makes a command that only groups verbs.
func noun(use, short string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: group}
	c.SuggestionsMinimumDistance = 2
	c.AddCommand(verbs...)
	return c
}

// exactly is the rule for verbs with n arguments; a refusal names them.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		_, names, _ := strings.Cut(cmd.Use, " ")
		return usage("%s takes %s; %d arguments were given", cmd.CommandPath(), names, len(args))
	}
}

// atLeast is the rule for verbs with n arguments or more.
func atLeast(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= n {
			return nil
		}
		return exactly(n)(cmd, args)
	}
}

type usageError struct{ text string }

// Error says what is wrong with the command line.
func (e *usageError) Error() string { return e.text }

func usage(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// exit ends a command with a code after everything was said already.
type exit struct{ code int }

// Error names the code; nobody is shown it.
func (e *exit) Error() string { return fmt.Sprintf("exit %d", e.code) }

// printError says what went wrong, and under it the way out.
func printError(w io.Writer, err error) {
	text, hint := err.Error(), ""
	var f *fault.Error
	if errors.As(err, &f) && f.Hint != "" {
		hint = f.Hint
		text = strings.TrimSuffix(text, " ("+hint+")")
	}
	fmt.Fprintf(w, "interlock: %s\n", clean(text))
	if hint != "" {
		fmt.Fprintf(w, "        %s\n", clean(hint))
	}
}

// note tells the user something beside the result.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.Err, "interlock: %s\n", clean(fmt.Sprintf(format, args...)))
}

// watched remembers the first failure of a writer.
type watched struct {
	io.Writer
	err error
}

// Write passes on and keeps the first error.
func (w *watched) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if w.err == nil {
		w.err = err
	}
	return n, err
}

// isTerminal tells whether a reader or writer is a terminal.
func isTerminal(v any) bool {
	if w, ok := v.(*watched); ok {
		v = w.Writer
	}
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
