package installer

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const hardwareKey = "il_SECRET_0123456789"

// setup runs setup.sh and returns what it printed and whether it ended well.
func (h *host) setup(t *testing.T, args ...string) (string, bool) {
	t.Helper()
	out, err := h.command(hardwareScript, args...).CombinedOutput()
	return string(out), err == nil
}

func (h *host) state(parts ...string) string {
	return filepath.Join(append([]string{h.home, ".interlock", "task-worker"}, parts...)...)
}

// calledAs are the calls of the program, without what came on standard input.
func (h *host) calledAs(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, c := range h.calls(t) {
		first, _, _ := strings.Cut(c, "\n")
		out = append(out, strings.TrimSpace(first+" "+argsOf(c)))
	}
	return out
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the program was called as\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestHardwareLineIsTheBlockThatIsPasted(t *testing.T) {
	got := HardwareLine(HardwareLineSpec{URL: "https://box:8443/", Key: "il_1", Pin: "sha256//ab+/="})
	want := `export INTERLOCK_TASK_WORKER_KEY='il_1'
curl -fsSL -k --pinnedpubkey 'sha256//ab+/=' https://box:8443/assets/setup.sh | sh -s -- --url https://box:8443 --pin 'sha256//ab+/='
unset INTERLOCK_TASK_WORKER_KEY
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// An install in every shell that people call sh: the key goes by standard input, and nowhere else.
func TestSetupInstalls(t *testing.T) {
	for name, shell := range shells() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlane(t, false, thisPlatform())
			h := newHost(t, shell...)
			h.env = []string{"INTERLOCK_TASK_WORKER_KEY=" + hardwareKey, "LLM_ALIAS=tiny"}
			out, ok := h.setup(t, "--url", p.URL, "--name", "garage mac")
			if !ok {
				t.Fatal(out)
			}
			same(t, h.calledAs(t), "agent service check", "hardware configure --url "+p.URL+" --name garage mac --key-stdin", "hardware service install")
			for _, call := range h.calls(t) {
				for line := range strings.Lines(call) {
					if strings.Contains(line, hardwareKey) && (line != "stdin "+hardwareKey+"\n" || !strings.HasPrefix(call, "hardware configure")) {
						t.Errorf("the key is seen in %q of %q", line, call)
					}
				}
				if strings.HasPrefix(call, "hardware configure") && (!strings.Contains(call, "stdin "+hardwareKey) || !strings.Contains(call, "env LLM_ALIAS=tiny")) {
					t.Errorf("configure was told: %s", call)
				}
			}
			if link, err := os.Readlink(h.state("app", "current")); err != nil || link != "1.0.0" {
				t.Errorf("current is %q %v", link, err)
			}
			// Again, without the key: nothing is fetched twice.
			h.env = nil
			if out, ok := h.setup(t, "--url", p.URL); !ok || !strings.Contains(out, "already installed") {
				t.Errorf("again: %s", out)
			}
			if n := p.seen("/assets/interlock-" + thisPlatform()); n != 1 {
				t.Errorf("fetched %d times", n)
			}
			entries, err := os.ReadDir(h.state("app"))
			if err != nil || len(entries) != 2 {
				t.Errorf("left in app: %v %v", entries, err)
			}
		})
	}
}

func TestSetupWithoutAService(t *testing.T) {
	p := newPlane(t, true, thisPlatform())
	h := newHost(t)
	out, ok := h.setup(t, "install", "--url", p.URL, "--pin", p.pin(), "--no-service")
	if !ok || !strings.Contains(out, "after a restart of the machine") {
		t.Fatal(out)
	}
	same(t, h.calledAs(t), "hardware configure --url "+p.URL+" --pin "+p.pin()+" --key-stdin", "hardware restart")
}

func TestSetupDryRunChangesNothing(t *testing.T) {
	p := newPlane(t, false, thisPlatform())
	h := newHost(t)
	out, ok := h.setup(t, "--url", p.URL, "--dry-run")
	if !ok || !strings.Contains(out, "nothing was changed") || !strings.Contains(out, "sh.interlock.task-worker") {
		t.Error(out)
	}
	if entries, err := os.ReadDir(h.home); err != nil || len(entries) != 0 {
		t.Errorf("left: %v %v", entries, err)
	}
}

// What the server sends is refused as a whole: nothing is installed and nothing runs.
func TestSetupRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		args []string // {url} is the control plane's
		bad  func(t *testing.T, p *plane)
		want string
	}{
		"no address":      {nil, nil, "--url is missing"},
		"plain http":      {[]string{"--url", "http://192.0.2.1"}, nil, "is plain http"},
		"an odd address":  {[]string{"--url", "http://127.0.0.1/?a=b"}, nil, "no plain address"},
		"an unknown verb": {[]string{"upgrade"}, nil, "unknown option: upgrade"},
		"two verbs":       {[]string{"status", "doctor"}, nil, "one at a time"},
		"a bad pin":       {[]string{"--url", "https://127.0.0.1", "--pin", "x"}, nil, "no public key pin"},
		"another hash": {[]string{"--url", "{url}"}, func(t *testing.T, p *plane) {
			p.edit(t, func(m *Manifest) { wrong(m, func(b *Build) { b.SHA256 = strings.Repeat("0", 64) }) })
		}, "nothing was installed"},
		"another size": {[]string{"--url", "{url}"}, func(t *testing.T, p *plane) { p.edit(t, func(m *Manifest) { wrong(m, func(b *Build) { b.Size++ }) }) }, "nothing was installed"},
		"a path for file": {[]string{"--url", "{url}"}, func(t *testing.T, p *plane) {
			p.edit(t, func(m *Manifest) { wrong(m, func(b *Build) { b.File = "../x" }) })
		}, "no plain name"},
		"a path, version": {[]string{"--url", "{url}"}, func(t *testing.T, p *plane) { p.edit(t, func(m *Manifest) { m.Version = "../../x" }) }, "no plain name"},
		"no manifest":     {[]string{"--url", "{url}"}, func(_ *testing.T, p *plane) { p.overrides["/model-worker/manifest.json"] = http.NotFound }, "offers no builds"},
		"another platform": {[]string{"--url", "{url}"}, func(t *testing.T, p *plane) {
			p.edit(t, func(m *Manifest) { m.Platforms = map[string]Build{"plan9-arm": {}} })
		}, "has no build for"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t, false, thisPlatform())
			if c.bad != nil {
				c.bad(t, p)
			}
			h := newHost(t)
			h.env = []string{"INTERLOCK_TASK_WORKER_KEY=" + hardwareKey}
			var args []string
			for _, a := range c.args {
				args = append(args, strings.ReplaceAll(a, "{url}", p.URL))
			}
			out, ok := h.setup(t, args...)
			if ok || !strings.Contains(out, c.want) || strings.Contains(out, hardwareKey) {
				t.Errorf("want %q: %s", c.want, out)
			}
			if calls := h.calls(t); len(calls) != 0 {
				t.Errorf("ran: %q", calls)
			}
			if left, err := filepath.Glob(h.state("app", "*")); err != nil || len(left) != 0 {
				t.Errorf("left: %v %v", left, err)
			}
		})
	}
}

func wrong(m *Manifest, change func(*Build)) {
	for name, b := range m.Platforms {
		change(&b)
		m.Platforms[name] = b
	}
}

// A download that was cut short anywhere runs nothing.
func TestSetupCutShortRunsNothing(t *testing.T) {
	p := newPlane(t, false, thisPlatform())
	for n := len(hardwareScript) - 2; n > 0; n -= 997 {
		h := newHost(t)
		_, _ = h.command(hardwareScript[:n], "--url", p.URL).CombinedOutput() // it may end well or badly
		if calls := h.calls(t); len(calls) != 0 {
			t.Fatalf("cut at %d of %d it ran %q", n, len(hardwareScript), calls)
		}
		if entries, err := os.ReadDir(h.home); err != nil || len(entries) != 0 {
			t.Fatalf("cut at %d it left %v %v", n, entries, err)
		}
	}
}

// hardwareHost is a host with version 1.0.0 set up, as configure leaves it.
func hardwareHost(t *testing.T, p *plane) *host {
	t.Helper()
	h := newHost(t)
	if out, ok := h.setup(t, "--url", p.URL, "--no-service"); !ok {
		t.Fatal(out)
	}
	for _, dir := range []string{"logs", "models", "run"} {
		if err := os.MkdirAll(h.state(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"env": "INTERLOCK_URL=" + p.URL + "\n", "logs/worker.log": "x", "models/m.gguf": "x", "run/state.json": "{}"} {
		if err := os.WriteFile(h.state(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(h.home, "calls")); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestSetupVerbsAskTheProgram(t *testing.T) {
	p := newPlane(t, false, thisPlatform())
	h := hardwareHost(t, p)
	for _, verb := range []string{"status", "doctor", "restart", "rollback"} {
		if out, ok := h.setup(t, verb); !ok {
			t.Error(verb, out)
		}
	}
	same(t, h.calledAs(t), "hardware status", "hardware doctor", "hardware restart", "hardware rollback")
	h.env = []string{"FAIL=hardware doctor"}
	if _, ok := h.setup(t, "doctor"); ok {
		t.Error("a doctor that finds something ends well")
	}
	for _, verb := range []string{"status", "doctor", "update", "restart", "rollback"} {
		if out, ok := newHost(t).setup(t, verb); ok || !strings.Contains(out, "not installed") {
			t.Errorf("%s without an install: %s", verb, out)
		}
	}
}

// Without signed releases an update is the newest build, and the one before when the worker does not get
// ready with it.
func TestSetupUpdate(t *testing.T) {
	t.Run("nothing newer", func(t *testing.T) {
		p := newPlane(t, false, thisPlatform())
		h := hardwareHost(t, p)
		if out, ok := h.setup(t, "update"); !ok || !strings.Contains(out, "1.0.0 is the newest") {
			t.Error(out)
		}
		same(t, h.calledAs(t))
	})
	t.Run("a newer build", func(t *testing.T) {
		p := newPlane(t, false, thisPlatform())
		h := hardwareHost(t, p)
		p.publish(t, "1.1.0", fakeProgram, thisPlatform())
		if out, ok := h.setup(t, "update"); !ok {
			t.Error(out)
		}
		h.links(t, "1.1.0", "1.0.0")
		same(t, h.calledAs(t), "hardware restart")
	})
	t.Run("one that does not get ready", func(t *testing.T) {
		p := newPlane(t, false, thisPlatform())
		h := hardwareHost(t, p)
		p.publish(t, "1.1.0", strings.Replace(fakeProgram, `[ "$FAIL"`, `[ "$call" != "hardware restart" ] || exit 1; [ "$FAIL"`, 1), thisPlatform())
		if out, ok := h.setup(t, "update"); ok || !strings.Contains(out, "not ready with 1.1.0: back to 1.0.0") {
			t.Error(out)
		}
		h.links(t, "1.0.0", "1.0.0")
		same(t, h.calledAs(t), "hardware restart", "hardware restart")
	})
	t.Run("one that does not run at all", func(t *testing.T) {
		p := newPlane(t, false, thisPlatform())
		h := hardwareHost(t, p)
		p.publish(t, "1.1.0", "#!/bin/sh\nexit 1\n", thisPlatform())
		if out, ok := h.setup(t, "update"); ok || !strings.Contains(out, "does not run on this machine") {
			t.Error(out)
		}
		h.links(t, "1.0.0", "")
		same(t, h.calledAs(t))
	})
	t.Run("signed releases", func(t *testing.T) {
		p := newPlane(t, false, thisPlatform())
		h := hardwareHost(t, p)
		p.overrides["/model-worker/tuf/metadata/1.root.json"] = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }
		if out, ok := h.setup(t, "update"); !ok {
			t.Error(out)
		}
		same(t, h.calledAs(t), "hardware update") // the program verifies, swaps and reverts by itself
	})
	t.Run("signed releases, and a current version that does not run", func(t *testing.T) {
		p := newPlane(t, false, thisPlatform())
		h := hardwareHost(t, p)
		p.overrides["/model-worker/tuf/metadata/1.root.json"] = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }
		if err := os.Symlink("1.0.0", h.state("app", "updater")); err != nil {
			t.Fatal(err)
		}
		broken := h.state("app", "1.1.0")
		if err := os.Mkdir(broken, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(broken, "interlock"), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(h.state("app", "current")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("1.1.0", h.state("app", "current")); err != nil {
			t.Fatal(err)
		}
		if out, ok := h.setup(t, "update"); !ok {
			t.Error(out)
		}
		same(t, h.calledAs(t), "hardware update") // by the version that proved itself
	})
}

func (h *host) links(t *testing.T, current, previous string) {
	t.Helper()
	for name, want := range map[string]string{"current": current, "previous": previous} {
		if got, err := os.Readlink(h.state("app", name)); got != want || (err != nil) != (want == "") {
			t.Errorf("%s is %q %v, want %q", name, got, err, want)
		}
	}
}

// Uninstall takes the service and the program, and leaves the key, the logs and the models.
func TestSetupUninstall(t *testing.T) {
	p := newPlane(t, false, thisPlatform())
	h := hardwareHost(t, p)
	h.env = []string{"FAIL=hardware service"}
	if out, ok := h.setup(t, "uninstall"); ok || !strings.Contains(out, "nothing was removed") {
		t.Errorf("root refused: %s", out)
	}
	if _, err := os.Stat(h.state("app", "current", "interlock")); err != nil {
		t.Errorf("after a refusal: %v", err)
	}
	h.env = nil
	out, ok := h.setup(t, "uninstall")
	if !ok {
		t.Fatal(out)
	}
	var left []string
	err := filepath.WalkDir(h.state(), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, strings.TrimPrefix(path, h.state()+"/"))
		}
		return err
	})
	if err != nil || strings.Join(left, " ") != "env logs/worker.log models/m.gguf" {
		t.Errorf("left: %v %v", left, err)
	}
	for _, kept := range []string{"env", "logs", "models"} {
		if !strings.Contains(out, "  "+h.state(kept)+"\n") {
			t.Errorf("%s is not said to be left: %s", kept, out)
		}
	}
	same(t, h.calledAs(t), "hardware service uninstall", "hardware service uninstall", "hardware stop")
	if out, ok := h.setup(t, "uninstall"); !ok || !strings.Contains(out, "nothing is installed") {
		t.Errorf("again: %s", out)
	}
}
