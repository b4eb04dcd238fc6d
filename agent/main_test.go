package agent

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	ossignal "os/signal" // the package has a signal of its own
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/mainthread"
	"interlock.sh/agent/supervise"
	"interlock.sh/internal/testkit/fakellama"
)

// The test binary is three programs: the tests, an agent of its own, and, by its environment, the fake
// llama-server.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == shimArg { // it passes the fake's environment on
		os.Exit(supervise.RunChild(os.Args[2:]))
	}
	fakellama.MaybeRun()
	os.Exit(mainthread.Run(func() int {
		if len(os.Args) > 1 && os.Args[1] == agentArg {
			return agentProgram(os.Args[2:])
		}
		return tests(m)
	}))
}

// tests runs more tests at once than there are cores: most of what they do is wait for processes. An agent
// that any of them starts refuses to run with the bootstrap key of the environment, and ends at once: the race
// detector would have it wait a second.
func tests(m *testing.M) int {
	flag.Parse()
	err := errors.Join(os.Setenv(envBootstrapKey, "never handed on"), os.Setenv("GORACE", "atexit_sleep_ms=0"), flag.Set("test.parallel", strconv.Itoa(max(atOnce, runtime.GOMAXPROCS(0)))))
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		return 2
	}
	return m.Run()
}

const atOnce = 4

const (
	agentArg = "agent-program"
	shimArg  = "run-child"
)

// ofFolder stands for the version that the program's folder is named for.
const ofFolder = "@"

// agentProgram is what `interlock agent run` does: agentProgram HOME GROUP VERSION LEASH.
func agentProgram(args []string) int {
	ctx, stop := ossignal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := func() error {
		e, err := enrollment.Home(args[0]).Find(args[1], "") // the one role of the rig
		if err != nil {
			return err
		}
		if os.Getenv(envBootstrapKey) != "" {
			return fmt.Errorf("the bootstrap key came along")
		}
		program, err := os.Executable()
		if err != nil {
			return err
		}
		version := args[2]
		if version == ofFolder {
			version = filepath.Base(filepath.Dir(program))
		}
		hangups := make(chan os.Signal, 1)
		ossignal.Notify(hangups, syscall.SIGHUP)
		a, err := New(ctx, Options{
			Enrollment: e, Version: version, Supervise: quick, Logger: NewLogger(os.Stderr, slog.LevelInfo), Hangup: hangups,
			Program: program, Args: os.Args[1:], Shim: []string{program, shimArg}, Leash: supervise.Leash(args[3]),
		})
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
