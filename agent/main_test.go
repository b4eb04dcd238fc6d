package agent

import (
	"context"
	"fmt"
	"os"
	ossignal "os/signal" // the package has a signal of its own
	"syscall"
	"testing"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/mainthread"
	"interlock.sh/fleet"
	"interlock.sh/internal/testkit/fakellama"
)

// The test binary is three programs: the tests, an agent of its own, and, by its environment, the fake
// llama-server.
func TestMain(m *testing.M) {
	fakellama.MaybeRun()
	os.Exit(mainthread.Run(func() int {
		if len(os.Args) > 1 && os.Args[1] == agentArg {
			return agentProgram(os.Args[2:])
		}
		return m.Run()
	}))
}

const agentArg = "agent-program"

// agentProgram is what `interlock agent run` does: agentProgram HOME GROUP VERSION.
func agentProgram(args []string) int {
	ctx, stop := ossignal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := func() error {
		e, err := enrollment.Home(args[0]).Load(args[1], fleet.RoleClient)
		if err != nil {
			return err
		}
		if os.Getenv(envBootstrapKey) != "" {
			return fmt.Errorf("the bootstrap key came along")
		}
		a, err := New(ctx, Options{Enrollment: e, Version: args[2], Supervise: quick})
		if err != nil {
			return err
		}
		if err := RecordPid(e); err != nil {
			return err
		}
		return a.Run(ctx)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		return 1
	}
	return 0
}
