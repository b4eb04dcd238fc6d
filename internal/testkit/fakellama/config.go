// Package fakellama is a scriptable llama-server for tests: the test binary re-executes itself and
// becomes one. It speaks what our programs use of the real server's HTTP (in the shapes seen on real
// builds) and misbehaves on request.
//
// It owns the imitation and the ways to start and step it. It must not be imported by anything but
// tests, and it knows nothing of who drives it.
//
// A test package that uses it begins its TestMain with MaybeRun:
//
//	func TestMain(m *testing.M) {
//		fakellama.MaybeRun()
//		os.Exit(m.Run())
//	}
package fakellama

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlock.sh/internal/testkit"
)

// configEnv carries the script to the re-executed binary. The name is none that a scrubbed
// environment lets through by chance.
const configEnv = "FAKELLAMA_CONFIG"

// raceEnv lets a fake that was built with the race detector end at once: by itself it sleeps a second at
// its exit, and a fake is asked for its version and flags before each start.
const raceEnv = "GORACE=atexit_sleep_ms=0"

// Config is the script. Its zero value is a healthy server that loads at once and answers "Hello,
// world.". Durations are in milliseconds, since the script travels as JSON.
type Config struct {
	// Ctx and Slots, when set, are what /props tells instead of what the flags asked: a wrong server.
	Ctx   int `json:"ctx,omitempty"`
	Slots int `json:"slots,omitempty"`

	// Control is the path of a Control's socket; the gates below wait there.
	Control    string `json:"control,omitempty"`
	GateLoad   bool   `json:"gateLoad,omitempty"`   // loading ends when Control.FinishLoad says so
	GateTokens bool   `json:"gateTokens,omitempty"` // each token waits for Control.Step
	LoadMS     int    `json:"loadMs,omitempty"`     // loading takes this long
	LoadLines  bool   `json:"loadLines,omitempty"`  // log a line each 10 ms while loading, as progress
	TokenMS    int    `json:"tokenMs,omitempty"`    // pause before each token

	Tokens    []string  `json:"tokens,omitempty"`    // the answer, in pieces
	Reasoning []string  `json:"reasoning,omitempty"` // reasoning_content pieces before it
	ToolCall  *ToolCall `json:"toolCall,omitempty"`  // answer a request that offers tools with this call

	HangCompletions bool `json:"hangCompletions,omitempty"` // /health stays 200, completions never answer
	HangAfter       int  `json:"hangAfter,omitempty"`       // the same, after this many completions
	IgnoreTerm      bool `json:"ignoreTerm,omitempty"`      // SIGTERM does nothing
	Spew            bool `json:"spew,omitempty"`            // write to stderr without pause, lines and endless lines

	CrashOnStart *Crash `json:"crashOnStart,omitempty"` // end before listening
	CrashAfter   int    `json:"crashAfter,omitempty"`   // end on this completion (1 is the first), as Crash or with 134
	Crash        *Crash `json:"crash,omitempty"`

	BindHang bool   `json:"bindHang,omitempty"` // when the port is taken, hang instead of exiting 1
	Squat    bool   `json:"squat,omitempty"`    // be a foreign server: every path answers 200 ok, no key asked
	Version  string `json:"version,omitempty"`  // the build number that --version and /props tell
}

// Crash is how the process ends: its exit code, and what it writes to stderr before.
type Crash struct {
	Code   int    `json:"code"`
	Stderr string `json:"stderr,omitempty"`
}

// ToolCall is a function call in an answer; Arguments is JSON text, as OpenAI has it.
type ToolCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Command is how to start the fake without a wrapper: the program's path, and the environment entries
// to add. The arguments are llama-server's own. A process of the same test binary that only passes this
// environment on must look at its arguments before it calls MaybeRun.
func Command(cfg Config) (path string, env []string) {
	path, err := os.Executable()
	if err != nil {
		panic(fmt.Sprintf("fakellama: find the test binary: %v", err))
	}
	return path, []string{configEnv + "=" + string(encode(cfg)), raceEnv}
}

// Install writes an executable file that behaves as llama-server under the script, for code that is
// given a path and starts it with an environment of its own. The file is named llama-server.
func Install(t testing.TB, cfg Config) (path string) {
	t.Helper()
	binary, _ := Command(cfg)
	script := fmt.Sprintf("#!/bin/sh\n%s %s=%s exec %s \"$@\"\n", raceEnv, configEnv, quote(string(encode(cfg))), quote(binary))
	path = filepath.Join(t.TempDir(), "llama-server")
	testkit.WriteProgram(t, path, []byte(script))
	return path
}

// MaybeRun becomes the fake, and never returns, in a process that Command or Install started; in any
// other it does nothing. Call it first in TestMain.
func MaybeRun() {
	text, marked := os.LookupEnv(configEnv)
	if !marked {
		return
	}
	var cfg Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		fmt.Fprintf(os.Stderr, "fakellama: read %s: %v\n", configEnv, err)
		os.Exit(2)
	}
	os.Exit(run(cfg, os.Args[1:]))
}

func encode(cfg Config) []byte {
	b, err := json.Marshal(cfg)
	if err != nil {
		panic(fmt.Sprintf("fakellama: encode the script: %v", err))
	}
	return b
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
