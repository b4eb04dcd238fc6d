package cli

import (
	"os"
	"testing"

	"interlock.sh/internal/testkit/fakellama"
)

// The test binary is three programs: the tests and, by its environment, the fake llama-server and an agent
// that is hung.
func TestMain(m *testing.M) {
	fakellama.MaybeRun()
	maybeHung()
	os.Exit(m.Run())
}
