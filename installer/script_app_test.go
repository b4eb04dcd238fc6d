package installer

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"interlock.sh/internal/testkit"
)

const rootPath = "/model-worker/tuf/metadata/1.root.json"

// signs makes a control plane one whose releases are signed under a root of trust.
func (p *plane) signs(root string) {
	p.overrides[rootPath] = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(root)) }
}

// pin is what the updater keeps once it trusts a root.
func (h *host) pin(t *testing.T, name, root string) {
	t.Helper()
	dir := filepath.Join(h.home, ".nightshift/app/trust")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(root), 0o600); err != nil {
		t.Fatal(err)
	}
}

// apps lists the app folders and what their current program is.
func (h *host) apps(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	dirs, err := filepath.Glob(filepath.Join(h.home, ".nightshift/app*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		version, _ := os.Readlink(filepath.Join(dir, "current"))
		out[filepath.Base(dir)] = version
	}
	return out
}

// Two control planes under one root share the folder of programs; another root has its own, and what is
// signed is replaced by nobody.
func TestScriptPicksTheAppFolderByTheRootOfTrust(t *testing.T) {
	own := "app-" + digestOf("root B")[:8]
	for _, c := range []struct {
		name          string
		pinned, as    string // root that the machine trusts already, and its file
		broken        bool   // the program that is there does not start
		origin        string // root of the control plane; "" for none
		app, otherApp string // versions afterwards
	}{
		{"nothing pinned, nothing signed", "", "", false, "", "1.1.0", ""},
		{"nothing pinned, signed", "", "", false, "root A", "1.1.0", ""},
		{"the same root", "root A", "first.root.json", false, "root A", "1.0.0", ""},
		{"the same root, pinned by an older updater", "root A", "root.json", false, "root A", "1.0.0", ""},
		{"the same root, a program that is broken", "root A", "first.root.json", true, "root A", "1.1.0", ""},
		{"another root", "root A", "first.root.json", false, "root B", "1.0.0", "1.1.0"},
		{"nothing signed beside a root", "root A", "first.root.json", false, "", "1.0.0", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, h := newPlane(t, false, thisPlatform()), newHost(t)
			line := []string{"--url", p.URL, "--group", "g", "--role", "client"}
			if c.pinned != "" {
				if out, ok := h.run(t, line...); !ok {
					t.Fatalf("the first install:\n%s", out)
				}
				h.pin(t, c.as, c.pinned)
			}
			if c.broken {
				testkit.WriteProgram(t, filepath.Join(h.home, ".nightshift/app/1.0.0/interlock"), []byte("#!/bin/sh\nexit 1\n"))
			}
			if c.origin != "" {
				p.signs(c.origin)
			}
			p.publish(t, "1.1.0", fakeProgram+"# newer\n", thisPlatform())
			out, ok := h.run(t, line...)
			if !ok {
				t.Fatalf("failed:\n%s", out)
			}
			got := h.apps(t)
			if got["app"] != c.app || got[own] != c.otherApp || len(got) > 2 {
				t.Errorf("the machine has %v", got)
			}
			if c.otherApp != "" { // and that is the program that goes on
				calls := h.calls(t)
				if last := calls[len(calls)-1]; !strings.HasPrefix(last, "agent service\n") {
					t.Errorf("the last call is %q", last)
				}
			}
		})
	}
}

func TestScriptRefusesARootThatIsNone(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"cannot be read": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"has no end": func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		},
	} {
		p, h := newPlane(t, false, thisPlatform()), newHost(t)
		p.overrides[rootPath] = answer
		out, ok := h.run(t, "--url", p.URL, "--group", "g", "--role", "client")
		if ok || !strings.Contains(out, "root") || len(h.calls(t)) > 0 {
			t.Errorf("%s: ok %v\n%s", name, ok, out)
		}
	}
}

// A dry run says everything and changes nothing, in every shell.
func TestScriptDryRun(t *testing.T) {
	for name, shell := range shells() {
		t.Run(name, func(t *testing.T) {
			p, h := newPlane(t, false, thisPlatform()), newHost(t, shell...)
			h.env = []string{"INTERLOCK_MODEL_KEY=" + testKey, "TMPDIR=" + t.TempDir()}
			out, ok := h.run(t, "--url", p.URL, "--group", "g", "--role", "trainer", "--dry-run")
			if !ok {
				t.Fatalf("failed:\n%s", out)
			}
			for _, text := range []string{"download " + p.URL + "/assets/interlock-" + thisPlatform(), "enroll this machine in group g, role trainer",
				"root       write /etc/systemd/system/sh.interlock.model-worker.<model id>.trainer.service", "nothing was changed"} {
				if !strings.Contains(out, text) {
					t.Errorf("%q is not in:\n%s", text, out)
				}
			}
			if strings.Contains(out, testKey) {
				t.Error("it shows the key")
			}
			if entries, _ := os.ReadDir(h.home); len(entries) > 0 {
				t.Errorf("the home folder holds %v", entries)
			}
			out, ok = h.run(t, "--url", p.URL, "--group", "g", "--role", "client", "--dry-run", "--no-service")
			if !ok || strings.Contains(out, "systemd") || !strings.Contains(out, "until the machine restarts") {
				t.Errorf("without a service: ok %v\n%s", ok, out)
			}
		})
	}
}

// fakeUI stands for Nightshift.
const fakeUI = "#!/bin/sh\necho \"$@\" >>\"$HOME/nightshift-calls\"\n"

func uiPointer(sha, size string) string {
	return `{"schema":1,"version":"2.0.0","platforms":{"linux-amd64":{"file":"nightshift-linux-amd64","sha256":"` + sha + `","size":` + size + `},` +
		`"linux-arm64":{"file":"nightshift-linux-arm64","sha256":"` + sha + `","size":` + size + `}}}`
}

func TestScriptInstallsNightshiftWhereThereIsADesktop(t *testing.T) {
	good := uiPointer(digestOf(fakeUI), strconv.Itoa(len(fakeUI)))
	for _, c := range []struct {
		name    string
		pointer string // "" for none
		env     string
		args    []string
		want    bool
		said    string
	}{
		{"a desktop", good, "DISPLAY=:0", nil, true, "Nightshift 2.0.0 starts at the next login"},
		{"a desktop of the other kind", good, "WAYLAND_DISPLAY=wayland-0", nil, true, "Nightshift 2.0.0 starts at the next login"},
		{"no desktop is wanted", good, "DISPLAY=:0", []string{"--no-ui"}, false, ""},
		{"none is offered", "", "DISPLAY=:0", nil, false, ""},
		{"other bytes", uiPointer(digestOf("x"), strconv.Itoa(len(fakeUI))), "DISPLAY=:0", nil, false, "is not what the release pointer says"},
		{"another size", uiPointer(digestOf(fakeUI), strconv.Itoa(len(fakeUI)-1)), "DISPLAY=:0", nil, false, "is not what the release pointer says"},
		{"a file that leaves the folder", strings.ReplaceAll(good, "nightshift-linux-a", "../nightshift-linux-a"), "DISPLAY=:0", nil, false, "is no plain name"},
		{"a version that leaves the folder", strings.Replace(good, "2.0.0", "../2", 1), "DISPLAY=:0", nil, false, "is no plain name"},
		{"a page", "<html>", "DISPLAY=:0", nil, false, "of a kind this script does not know"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, h := newPlane(t, false, platforms...), newHost(t)
			h.shadow(t, "uname", "#!/bin/sh\ncase $1 in -s) echo Linux ;; -m) echo x86_64 ;; esac\n")
			files := map[string]string{"nightshift-linux.json": c.pointer, "nightshift-linux-amd64": fakeUI}
			for name, text := range files {
				if text == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			h.env = []string{c.env}
			out, ok := h.run(t, append([]string{"--url", p.URL, "--group", "g", "--role", "client"}, c.args...)...)
			if !ok || !strings.Contains(out, c.said) {
				t.Errorf("ok %v, want %q:\n%s", ok, c.said, out)
			}
			called, _ := os.ReadFile(filepath.Join(h.home, "nightshift-calls"))
			program, err := os.ReadFile(filepath.Join(h.home, ".nightshift/app/current/nightshift"))
			if got := err == nil && string(program) == fakeUI && string(called) == "--install-autostart\n"; got != c.want {
				t.Errorf("installed %v, want %v: %v, %q", got, c.want, err, called)
			}
			if len(h.calls(t)) != 3 {
				t.Errorf("interlock was called %q", h.calls(t))
			}
			if left := strings.Fields(h.installed(t)); slices.ContainsFunc(left, func(n string) bool { return strings.HasPrefix(n, ".install") }) {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// A line that brings another version of the agent takes no program away that stands beside it.
func TestScriptKeepsWhatStandsBesideTheProgram(t *testing.T) {
	p, h := newPlane(t, false, thisPlatform()), newHost(t)
	line := []string{"--url", p.URL, "--group", "g", "--role", "client", "--no-ui"}
	if out, ok := h.run(t, line...); !ok {
		t.Fatalf("failed:\n%s", out)
	}
	testkit.WriteProgram(t, filepath.Join(h.home, ".nightshift/app/1.0.0/nightshift"), []byte(fakeUI))
	p.publish(t, "1.1.0", fakeProgram+"# newer\n", thisPlatform())
	if out, ok := h.run(t, line...); !ok {
		t.Fatalf("failed:\n%s", out)
	}
	b, err := os.ReadFile(filepath.Join(h.home, ".nightshift/app/1.1.0/nightshift"))
	if err != nil || string(b) != fakeUI || h.apps(t)["app"] != "1.1.0" {
		t.Errorf("beside 1.1.0 stands %q, %v; %v", b, err, h.apps(t))
	}
	if _, err := os.Stat(filepath.Join(h.home, ".nightshift/app/1.1.0/interlock-tui")); err == nil {
		t.Error("a program that was not there is")
	}
}
