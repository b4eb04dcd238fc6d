package supervise

import (
	"os"
	"testing"

	"interlock.sh/agent/mainthread"
	"interlock.sh/internal/testkit/fakellama"
)

// The test binary is five programs: the tests, the shim of LeashPipe, an agent to be killed, one that
// replaces itself, and, by its environment, the fake llama-server. The shim comes first: it passes that environment on.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == shimArg:
		os.Exit(RunChild(os.Args[2:]))
	case len(os.Args) > 1 && os.Args[1] == agentArg:
		os.Exit(mainthread.Run(func() int { return agentToKill(os.Args[2:]) }))
	case len(os.Args) > 1 && os.Args[1] == replaceArg:
		if os.Getenv(envAnywhere) != "" {
			os.Exit(agentToReplace(os.Args[2:]))
		}
		os.Exit(mainthread.Run(func() int { return agentToReplace(os.Args[2:]) }))
	}
	fakellama.MaybeRun()
	os.Exit(m.Run())
}

const (
	shimArg    = "run-child"
	agentArg   = "agent-to-kill"
	replaceArg = "agent-to-replace"
)
