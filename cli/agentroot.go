package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"interlock.sh/agent"
	"interlock.sh/fault"
	"interlock.sh/installer/service"
)

// asRoot has root do a request, in this process when it is root's, else by one call of sudo, pkexec or the
// system's prompt.
func (a *app) asRoot(ctx context.Context, host *service.Host, q service.Request) error {
	way, err := service.ThisDesk(a.atTerminal()).Elevate()
	if err != nil {
		return err
	}
	if way.Direct() {
		_, err := host.Apply(ctx, q, nil)
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	a.note("root does that once, by %s", way.Name)
	return way.Ask(ctx, program, []string{"agent", "service", "apply"}, q, a.Err)
}

// atTerminal reports whether a person could type a password: the install line's own input is a pipe.
func (a *app) atTerminal() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	_ = tty.Close() // only looked at
	return true
}

// serviceApplyCmd is the step of root. People see it in what sudo asks for and start it never.
func (a *app) serviceApplyCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "apply", Hidden: true, Args: cobra.NoArgs}
	encoded := cmd.Flags().String("request", "", "the request in base64, where there is no standard input to read it from")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		plan, err := a.applyRequest(cmd.Context(), *encoded)
		if err := service.WriteAnswer(a.Out, plan, err); err != nil {
			return fmt.Errorf("write the answer: %w", err)
		}
		if err != nil {
			return &exit{ExitError} // said in the answer
		}
		return nil
	}
	return cmd
}

func (a *app) applyRequest(ctx context.Context, encoded string) (service.Plan, error) {
	if os.Geteuid() != 0 {
		return service.Plan{}, fault.New(fault.ScopeDenied, "this is not root").WithHint("interlock agent service install asks for root by itself")
	}
	in := io.Reader(a.In)
	if encoded != "" {
		in = base64.NewDecoder(base64.StdEncoding, strings.NewReader(encoded))
	}
	q, err := service.ReadRequest(in)
	if err != nil {
		return service.Plan{}, err
	}
	host, err := service.ThisHost()
	if err != nil {
		return service.Plan{}, err
	}
	caller, err := service.Caller(os.Environ())
	if err != nil {
		return service.Plan{}, err
	}
	return host.Apply(ctx, q, caller)
}

// serviceLog is where a service's agent logs: its own file, and the journal where the service manager keeps
// one and its size in bounds.
func (a *app) serviceLog(file *agent.LogFile) io.Writer {
	if err, ok := a.Err.(*os.File); ok && isJournal(err) {
		return file.Beside(err)
	}
	return file
}

// isJournal reports whether an open file is the journal, as systemd tells in the environment. That a
// variable is set says little: programs that a service starts in turn have it too.
func isJournal(f *os.File) bool {
	st, err := f.Stat()
	if err != nil {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", sys.Dev, sys.Ino)
}
