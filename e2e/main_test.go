//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"interlock.sh/internal/testkit/fakellama"
)

const version = "0.1.0-e2e"

// What TestMain made, for all tests.
var (
	program string // the interlock under test
	assets  string // folder for serve --assets, with a build for this machine
)

// TestMain becomes the scripted llama-server, or the probe of a service's confinement, when it is started as
// one. Otherwise it builds the program
// once, with the flags of every other build, and lays out what machines install from.
func TestMain(m *testing.M) {
	fakellama.MaybeRun()
	maybeProbe()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := prepare(dir); err != nil {
		fmt.Fprintln(os.Stderr, "prepare end-to-end tests:", err)
		return 1
	}
	return m.Run()
}

// prepare builds the program and the folder of assets in dir.
func prepare(dir string) error {
	assets = filepath.Join(dir, "assets")
	if err := os.MkdirAll(assets, 0o755); err != nil {
		return err
	}
	program = os.Getenv("INTERLOCK_BIN")
	if program == "" {
		program = filepath.Join(dir, "interlock")
		if err := goRun("build", "-ldflags", "-s -w -X interlock.sh/cli.Version="+version, "-o", program, "./cmd/interlock"); err != nil {
			return err
		}
	}
	b, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(assets, "interlock-"+platform), b, 0o755); err != nil {
		return err
	}
	return goRun("run", "./installer/mkmanifest", assets, version)
}

// goRun runs the go command in the product's module.
func goRun(args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", args[0], err, out)
	}
	return nil
}
