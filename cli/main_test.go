package cli

import (
	"os"
	"testing"

	"interlock.sh/internal/testkit/fakellama"
)

// The test binary is two programs: the tests and, by its environment, the fake llama-server.
func TestMain(m *testing.M) {
	fakellama.MaybeRun()
	os.Exit(m.Run())
}
