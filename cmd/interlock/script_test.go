package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"interlock.sh/internal/testkit"
	"interlock.sh/internal/testkit/gguftiny"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"interlock": main, "interlock-local": main})
}

// TestScripts runs the real program against a control plane that answers from memory. Each script has
// one of its own at $API, an empty home, and the credentials in $OWNER, $ACCOUNT and $SDK.
func TestScripts(t *testing.T) { runScripts(t, "testdata/script", nil) }

type command = func(ts *testscript.TestScript, neg bool, args []string)

func runScripts(t *testing.T, dir string, more map[string]command) {
	cmds := map[string]command{
		"gguf":        makeGGUF,
		"mode":        checkMode,
		"await":       awaitLine,
		"awaitstream": awaitStream,
		"cancelled":   checkCancelled,
		"submitted":   checkSubmitted,
	}
	for name, c := range more {
		cmds[name] = c
	}
	testscript.Run(t, testscript.Params{
		Dir: dir, Cmds: cmds, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			api := newFakeAPI(env.T().(testing.TB))
			env.Values["api"] = api
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("HOME", home)
			env.Setenv("API", api.URL)
			env.Setenv("OWNER", ownerToken)
			env.Setenv("ACCOUNT", accountToken)
			env.Setenv("SDK", sdkKey)
			env.Setenv("CTRLC", "\x03")
			// A profile that is signed in, for scripts that are not about signing in.
			env.Setenv("SIGNEDIN", fmt.Sprintf(`{"api":%q,"token":%q,"project":"home","account":"owner"}`, api.URL, accountToken))
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else the race detector lets each command end a second late
			env.Setenv("INTERLOCK_URL", "")
			env.Setenv("INTERLOCK_SDK_KEY", "")
			env.Setenv("INTERLOCK_PROFILE", "")
			return os.MkdirAll(home, 0o700)
		},
	})
}

func apiOf(ts *testscript.TestScript) *fakeAPI {
	api, ok := ts.Value("api").(*fakeAPI)
	if !ok {
		ts.Fatalf("this script has no control plane")
	}
	return api
}

// makeGGUF writes a tiny model: gguf FILE [SHARDS].
func makeGGUF(ts *testscript.TestScript, _ bool, args []string) {
	opts := gguftiny.Options{}
	if len(args) > 1 {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		opts.Shards = n
	}
	_, err := gguftiny.Write(ts.MkAbs(args[0]), 1, opts)
	ts.Check(err)
}

// checkMode compares the mode of a file: mode 0600 FILE.
func checkMode(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}

// awaitLine waits until a line of a file matches: await PATTERN FILE.
func awaitLine(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[0])
	look, late := time.NewTicker(10*time.Millisecond), time.NewTimer(30*time.Second)
	defer look.Stop()
	defer late.Stop()
	for {
		if text, err := os.ReadFile(ts.MkAbs(args[1])); err == nil && pattern.Match(text) {
			return
		}
		select {
		case <-look.C:
		case <-late.C:
			ts.Fatalf("no line of %s matched %s", args[1], args[0])
		}
	}
}

// awaitStream waits until the program reads the stream of a run that hangs.
func awaitStream(ts *testscript.TestScript, _ bool, _ []string) {
	select {
	case <-apiOf(ts).streams:
	case <-time.After(testkit.Patience):
		ts.Fatalf("nothing opened the stream of a run")
	}
}

// checkCancelled is true once a run was cancelled.
func checkCancelled(ts *testscript.TestScript, neg bool, _ []string) {
	api := apiOf(ts)
	api.mu.Lock()
	defer api.mu.Unlock()
	if api.cancelled == neg {
		ts.Fatalf("cancelled is %v", api.cancelled)
	}
}

// checkSubmitted compares the newest body that was submitted: submitted JSON.
func checkSubmitted(ts *testscript.TestScript, _ bool, args []string) {
	api := apiOf(ts)
	api.mu.Lock()
	defer api.mu.Unlock()
	if len(api.submitted) == 0 {
		ts.Fatalf("nothing was submitted")
	}
	if got := string(api.submitted[len(api.submitted)-1]); got != strings.Join(args, " ") {
		ts.Fatalf("submitted %s, want %s", got, strings.Join(args, " "))
	}
}
