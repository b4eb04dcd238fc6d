package installer

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"interlock.sh/internal/testkit"
)

const testKey = "ilc_SECRET_0123456789"

// fakeProgram stands for interlock: it appends its arguments, its environment and its standard input
// to $HOME/calls, and fails at the verb that $FAIL names. It always has a version.
const fakeProgram = `#!/bin/sh
[ "$1" != --version ] || exit 0
call="$1 $2"
{
  echo "== $call"
  shift 2
  for a in "$@"; do echo "arg $a"; done
  env | sed 's/^/env /'
  sed 's/^/stdin /'
} >>"$HOME/calls"
[ "$FAIL" != "$call" ] && [ "$FAIL" != "$call $1" ] || { echo "interlock: no such luck" >&2; exit 3; }
`

// plane is a control plane that offers the given platforms' builds of fakeProgram.
type plane struct {
	*httptest.Server
	mu        sync.Mutex
	requests  []string
	overrides map[string]http.HandlerFunc // by path
	dir       string
}

func newPlane(t *testing.T, tls bool, platforms ...string) *plane {
	t.Helper()
	p := &plane{overrides: map[string]http.HandlerFunc{}, dir: t.TempDir()}
	p.publish(t, "1.0.0", fakeProgram, platforms...)
	if tls {
		p.Server = httptest.NewUnstartedServer(p)
		p.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // refused handshakes are the test
		p.StartTLS()
	} else {
		p.Server = httptest.NewServer(p)
	}
	t.Cleanup(p.Close)
	return p
}

// publish does what make dist does.
func (p *plane) publish(t *testing.T, version, program string, platforms ...string) {
	t.Helper()
	for _, name := range platforms {
		if err := os.WriteFile(filepath.Join(p.dir, "interlock-"+name), []byte(program), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m, err := BuildManifest(p.dir, version)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteManifest(p.dir, m); err != nil {
		t.Fatal(err)
	}
}

// edit changes the manifest that is served.
func (p *plane) edit(t *testing.T, change func(*Manifest)) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, ManifestName))
	if err != nil {
		t.Fatal(err)
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	change(&m)
	if err := WriteManifest(p.dir, m); err != nil {
		t.Fatal(err)
	}
}

func (p *plane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.requests = append(p.requests, r.URL.Path)
	p.mu.Unlock()
	if f := p.overrides[r.URL.Path]; f != nil {
		f(w, r)
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/assets/")
	if r.URL.Path == "/model-worker/manifest.json" {
		name, ok = ManifestName, true
	}
	a, err := OpenAsset(p.dir, name)
	if !ok || err != nil {
		http.NotFound(w, r)
		return
	}
	defer a.Close()
	http.ServeContent(w, r, name, a.ModTime, a)
}

// seen is how often a path was asked for.
func (p *plane) seen(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, r := range p.requests {
		if r == path {
			n++
		}
	}
	return n
}

// pin is the curl form of the server's public key.
func (p *plane) pin() string {
	sum := sha256.Sum256(p.Certificate().RawSubjectPublicKeyInfo)
	return "sha256//" + base64.StdEncoding.EncodeToString(sum[:])
}

// host is a machine: a home folder, a search path, a shell.
type host struct {
	home  string
	shell []string
	path  string
	env   []string
}

func newHost(t *testing.T, shell ...string) *host {
	t.Helper()
	if len(shell) == 0 {
		shell = []string{"sh"}
	}
	return &host{home: t.TempDir(), shell: shell, path: os.Getenv("PATH")}
}

// shadow puts a program of the given text before all others on the search path.
func (h *host) shadow(t *testing.T, name, text string) {
	t.Helper()
	dir := t.TempDir()
	testkit.WriteProgram(t, filepath.Join(dir, name), []byte(text))
	h.path = dir + ":" + h.path
}

// command is the script on the standard input of a shell, as in `curl … | sh -s -- args`.
func (h *host) command(text []byte, args ...string) *exec.Cmd {
	argv := append(append([]string{}, h.shell...), "-s", "--")
	cmd := exec.Command(argv[0], append(argv[1:], args...)...)
	cmd.Stdin = bytes.NewReader(text)
	cmd.Dir = h.home
	cmd.Env = append([]string{"HOME=" + h.home, "PATH=" + h.path, "http_proxy=http://127.0.0.1:1"}, h.env...)
	return cmd
}

// run runs the whole script and returns what it printed and whether it ended well.
func (h *host) run(t *testing.T, args ...string) (string, bool) {
	t.Helper()
	out, err := h.command(script, args...).CombinedOutput()
	return string(out), err == nil
}

// calls is what fakeProgram saw, one string a call, in order.
func (h *host) calls(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(h.home, "calls"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "== ")[1:]
}

// args are the arguments of one call.
func argsOf(call string) string {
	var out []string
	for line := range strings.Lines(call) {
		if a, ok := strings.CutPrefix(line, "arg "); ok {
			out = append(out, strings.TrimSuffix(a, "\n"))
		}
	}
	return strings.Join(out, " ")
}

// installed are the entries of ~/.nightshift/app.
func (h *host) installed(t *testing.T) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(h.home, ".nightshift", "app"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func thisPlatform() string { return runtime.GOOS + "-" + runtime.GOARCH }

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// shells are the shells of this machine that people call sh.
func shells() map[string][]string {
	out := map[string][]string{"sh": {"sh"}}
	for name, argv := range map[string][]string{
		"dash": {"dash"}, "bash": {"bash", "--posix"}, "busybox": {"busybox", "sh"}, "ksh": {"ksh"}, "zsh": {"zsh", "--emulate", "sh"},
	} {
		if _, err := exec.LookPath(argv[0]); err == nil {
			out[name] = argv
		}
	}
	return out
}
