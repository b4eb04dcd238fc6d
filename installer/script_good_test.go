package installer

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestScriptInstallsEnrollsAndStarts(t *testing.T) {
	for name, shell := range shells() {
		t.Run(name, func(t *testing.T) {
			p, h := newPlane(t, false, thisPlatform()), newHost(t, shell...)
			h.env = []string{"INTERLOCK_MODEL_KEY=" + testKey}
			// Whatever runs before interlock must not see the key either; curl stands for all of it.
			curl, err := exec.LookPath("curl")
			if err != nil {
				t.Fatal(err)
			}
			h.shadow(t, "curl", "#!/bin/sh\nenv >>\"$HOME/curl-saw\"\necho \"$@\" >>\"$HOME/curl-saw\"\nexec "+curl+" \"$@\"\n")

			out, ok := h.run(t, "--url", p.URL+"/", "--group", "my model", "--role=client")
			if !ok {
				t.Fatalf("failed:\n%s", out)
			}
			calls := h.calls(t)
			if len(calls) != 3 || argsOf(calls[0]) != "check" || !strings.HasPrefix(calls[0], "agent service\n") ||
				!strings.HasPrefix(calls[1], "agent enroll\n") || !strings.HasPrefix(calls[2], "agent service\n") {
				t.Fatalf("interlock was called %q", calls)
			}
			checked := calls[0]
			calls = calls[1:]
			want := "--url " + p.URL + " --group my model --role client --key-stdin"
			if got := argsOf(calls[0]); got != want {
				t.Errorf("enroll got %q, want %q", got, want)
			}
			if got, want := argsOf(calls[1]), "install --group my model --role client"; got != want {
				t.Errorf("service got %q, want %q", got, want)
			}
			if !strings.Contains(calls[0], "\nstdin "+testKey+"\n") {
				t.Errorf("the key was not on enroll's standard input:\n%s", calls[0])
			}
			if strings.Contains(calls[1], "stdin ") {
				t.Errorf("service was given an input:\n%s", calls[1])
			}
			saw, err := os.ReadFile(filepath.Join(h.home, "curl-saw"))
			if err != nil {
				t.Fatal(err)
			}
			rest := strings.Replace(calls[0], "\nstdin "+testKey+"\n", "\n", 1) + checked + calls[1] + string(saw) + out
			if strings.Contains(rest, testKey) {
				t.Errorf("the key leaked into arguments, an environment or the output:\n%s", rest)
			}
			checkInstalled(t, h, "1.0.0")
		})
	}
}

func checkInstalled(t *testing.T, h *host, version string) {
	t.Helper()
	app := filepath.Join(h.home, ".nightshift", "app")
	if got, err := os.Readlink(filepath.Join(app, "current")); err != nil || got != version {
		t.Errorf("current points to %q (%v), want %s", got, err, version)
	}
	if got := h.installed(t); !strings.HasSuffix(got, version+" current updater") || strings.Contains(got, "install-") {
		t.Errorf("the app folder holds %q", got)
	}
	st, err := os.Stat(filepath.Join(app, "current", "interlock"))
	if err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("the program: %v, %v", st, err)
	}
	if st, err := os.Stat(filepath.Dir(app)); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("~/.nightshift: %v, %v", st, err)
	}
}

func TestScriptRunsAgainWithoutAKeyAndDownloadsNothing(t *testing.T) {
	p, h := newPlane(t, false, thisPlatform()), newHost(t)
	line := []string{"--url", p.URL, "--group", "g", "--role", "client", "--no-service"}
	for range 2 {
		if out, ok := h.run(t, line...); !ok {
			t.Fatalf("failed:\n%s", out)
		}
	}
	if n := p.seen("/assets/interlock-" + thisPlatform()); n != 1 {
		t.Errorf("the program was downloaded %d times", n)
	}
	calls := h.calls(t)
	if len(calls) != 4 || !strings.Contains(calls[2], "\nstdin \n") {
		t.Errorf("the second enroll did not get an empty key: %q", calls)
	}
	checkInstalled(t, h, "1.0.0")
}

func TestScriptRepairsADamagedProgram(t *testing.T) {
	p, h := newPlane(t, false, thisPlatform()), newHost(t)
	line := []string{"--url", p.URL, "--group", "g", "--role", "client"}
	if out, ok := h.run(t, line...); !ok {
		t.Fatalf("failed:\n%s", out)
	}
	program := filepath.Join(h.home, ".nightshift/app/1.0.0/interlock")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, ok := h.run(t, line...); !ok {
		t.Fatalf("failed:\n%s", out)
	}
	if got, _ := os.ReadFile(program); string(got) != fakeProgram {
		t.Errorf("the program was left as %q", got)
	}
}

func TestScriptSwapsToANewVersionAndKeepsTheOld(t *testing.T) {
	for name, mv := range map[string]string{
		"an mv that knows -T": "",
		// An mv of neither GNU's nor BSD's kind, to reach the last way of replacing a link.
		"an mv that knows neither -T nor -h": "#!/bin/sh\ncase $1 in -fT | -fh) exit 64 ;; esac\nexec /bin/mv \"$@\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			p, h := newPlane(t, false, thisPlatform()), newHost(t)
			if mv != "" {
				h.shadow(t, "mv", mv)
			}
			line := []string{"--url", p.URL, "--group", "g", "--role", "trainer"}
			if out, ok := h.run(t, line...); !ok {
				t.Fatalf("failed:\n%s", out)
			}
			p.publish(t, "1.1.0", fakeProgram+"# newer\n", thisPlatform())
			if out, ok := h.run(t, line...); !ok {
				t.Fatalf("failed:\n%s", out)
			}
			if got := h.installed(t); got != "1.0.0 1.1.0 current updater" {
				t.Errorf("the app folder holds %q", got)
			}
			checkInstalled(t, h, "1.1.0")
			if inside, _ := os.ReadDir(filepath.Join(h.home, ".nightshift/app/1.0.0")); len(inside) != 1 {
				t.Errorf("the old version's folder holds %v", inside)
			}
		})
	}
}

// TestScriptOnBusybox runs it where every tool but curl is busybox's.
func TestScriptOnBusybox(t *testing.T) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal("busybox is missing: packaging/dev/setup.sh installs it")
	}
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if out, err := exec.Command(busybox, "--install", "-s", bin).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Symlink(curl, filepath.Join(bin, "curl")); err != nil {
		t.Fatal(err)
	}
	p, h := newPlane(t, false, thisPlatform()), newHost(t, busybox, "sh")
	h.path = bin
	for _, version := range []string{"1.0.0", "1.1.0"} {
		p.publish(t, version, fakeProgram+"# "+version+"\n", thisPlatform())
		if out, ok := h.run(t, "--url", p.URL, "--group", "g", "--role", "client"); !ok {
			t.Fatalf("failed:\n%s", out)
		}
	}
	checkInstalled(t, h, "1.1.0")
}

// TestScriptUsesShasum runs it where there is no sha256sum, as on macOS.
func TestScriptUsesShasum(t *testing.T) {
	bin := t.TempDir()
	for _, tool := range []string{"sh", "curl", "shasum", "uname", "mkdir", "mktemp", "rm", "tr", "sed", "wc", "chmod", "sync", "mv", "ln", "readlink", "env"} {
		full, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(full, filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	p, h := newPlane(t, false, thisPlatform()), newHost(t)
	h.path = bin
	line := []string{"--url", p.URL, "--group", "g", "--role", "client"}
	if out, ok := h.run(t, line...); !ok {
		t.Fatalf("failed:\n%s", out)
	}
	checkInstalled(t, h, "1.0.0")

	if err := os.Remove(filepath.Join(bin, "shasum")); err != nil {
		t.Fatal(err)
	}
	if out, ok := h.run(t, line...); ok || !strings.Contains(out, "neither sha256sum nor shasum is here") {
		t.Errorf("without any digest:\n%s", out)
	}
}

func TestScriptFindsThePlatform(t *testing.T) {
	for _, c := range []struct{ kernel, machine, sysctl, want string }{
		{"Linux", "x86_64", "", "linux-amd64"},
		{"Linux", "aarch64", "", "linux-arm64"},
		{"Darwin", "arm64", "", "darwin-arm64"},
		{"Darwin", "x86_64", "0", "darwin-amd64"},
		{"Darwin", "x86_64", "1", "darwin-arm64"}, // a shell under Rosetta
		{"FreeBSD", "amd64", "", "there is no build for FreeBSD on amd64"},
		{"Linux", "riscv64", "", "there is no build for Linux on riscv64"},
	} {
		t.Run(c.kernel+" "+c.machine+" "+c.sysctl, func(t *testing.T) {
			p, h := newPlane(t, false, platforms...), newHost(t)
			h.shadow(t, "uname", "#!/bin/sh\ncase $1 in -s) echo "+c.kernel+" ;; -m) echo "+c.machine+" ;; esac\n")
			if c.sysctl != "" {
				h.shadow(t, "sysctl", "#!/bin/sh\necho "+c.sysctl+"\n")
			}
			out, ok := h.run(t, "--url", p.URL, "--group", "g", "--role", "client")
			if p.seen("/assets/interlock-"+c.want) != 1 && (ok || !strings.Contains(out, c.want)) {
				t.Errorf("want %s, got\n%s", c.want, out)
			}
		})
	}
}

func TestScriptPassesOptionsOn(t *testing.T) {
	p, h := newPlane(t, true, thisPlatform()), newHost(t)
	out, ok := h.run(t, "--url", p.URL, "--group", "$(id)", "--role", "trainer", "--runtime", "mlx-lm", "--pin", p.pin(), "--no-ui",
		"--trainer-key", testKey)
	if !ok {
		t.Fatalf("failed:\n%s", out)
	}
	want := "--url " + p.URL + " --group $(id) --role trainer --runtime mlx-lm --pin " + p.pin() + " --key-stdin"
	if got := argsOf(h.calls(t)[1]); got != want {
		t.Errorf("enroll got %q, want %q", got, want)
	}
	if !strings.Contains(h.calls(t)[1], "\nstdin "+testKey+"\n") {
		t.Error("the key of the option did not arrive")
	}
	if !strings.Contains(out, "warning: --trainer-key puts the key into") {
		t.Errorf("no warning:\n%s", out)
	}
}

func TestScriptGoesToAnotherMachineOverHTTPWhenTold(t *testing.T) {
	p, h := newPlane(t, false, thisPlatform()), newHost(t)
	// 0.0.0.0 reaches this machine and is no loopback address.
	url := strings.Replace(p.URL, "127.0.0.1", "0.0.0.0", 1)
	h.env = []string{"no_proxy=0.0.0.0"}
	out, ok := h.run(t, "--url", url, "--group", "g", "--role", "client", "--insecure-http")
	if !ok || !strings.Contains(argsOf(h.calls(t)[1]), " --insecure-http ") {
		t.Fatalf("ok %v\n%s", ok, out)
	}
}

// TestScriptDoesNotReexportItsVariables: a variable that is exported before stays exported when a shell
// assigns it, and bash can be told to export all.
func TestScriptDoesNotReexportItsVariables(t *testing.T) {
	for name, shell := range shells() {
		t.Run(name, func(t *testing.T) {
			p, h := newPlane(t, false, thisPlatform()), newHost(t, shell...)
			h.env = []string{"INTERLOCK_MODEL_KEY=" + testKey, "interlock_key=old", "SHELLOPTS=allexport"}
			if out, ok := h.run(t, "--url", p.URL, "--group", "g", "--role", "client"); !ok {
				t.Fatalf("failed:\n%s", out)
			}
			for _, call := range h.calls(t) {
				for line := range strings.Lines(call) {
					if strings.HasPrefix(line, "env ") && strings.Contains(line, testKey) {
						t.Errorf("the environment holds the key: %s", line)
					}
				}
			}
		})
	}
}
