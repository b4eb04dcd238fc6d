package installer

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestScriptRefusesWhatTheServerSends: nothing of it is installed and nothing runs.
func TestScriptRefusesWhatTheServerSends(t *testing.T) {
	const manifest = "/model-worker/manifest.json"
	program := "/assets/interlock-" + thisPlatform()
	text := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(s)) }
	}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}
	change := func(f func(*Build)) func(*testing.T, *plane) {
		return func(t *testing.T, p *plane) {
			p.edit(t, func(m *Manifest) {
				b := m.Platforms[thisPlatform()]
				f(&b)
				m.Platforms[thisPlatform()] = b
			})
		}
	}
	serve := func(path string, f http.HandlerFunc) func(*testing.T, *plane) {
		return func(_ *testing.T, p *plane) { p.overrides[path] = f }
	}
	for _, c := range []struct {
		name   string
		damage func(*testing.T, *plane)
		want   string
	}{
		{"other bytes of the same length", serve(program, text(strings.Replace(fakeProgram, "no such luck", "no such lick", 1))),
			"the manifest says " + digestOf(fakeProgram)},
		{"a download that is too short", serve(program, text("#!/bin/sh\n")), "has 10 bytes, the manifest says"},
		{"a download that is too long", serve(program, text(fakeProgram+"# more\n")), "the manifest says"},
		{"an endless download", serve(program, endless), "the manifest says"},
		{"a download that breaks off", serve(program, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(fakeProgram)))
			_, _ = w.Write([]byte(fakeProgram[:100]))
		}), "has 100 bytes, the manifest says"},
		{"a size that is wrong in the manifest", change(func(b *Build) { b.Size++ }), "bytes, the manifest says"},
		{"a build that is gone", serve(program, http.NotFound), "has no build for " + thisPlatform()},
		{"a build that cannot be read", serve(program, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(501) }), "answered 501"},
		{"a platform that is not built", func(t *testing.T, p *plane) {
			p.edit(t, func(m *Manifest) { delete(m.Platforms, thisPlatform()) })
		}, "has no build for " + thisPlatform()},
		{"a file name that leaves the folder", change(func(b *Build) { b.File = "../../q/health" }), "which is no plain name"},
		{"a file name that is an option", change(func(b *Build) { b.File = "-o" }), "which is no plain name"},
		{"a hidden file name", change(func(b *Build) { b.File = ".." }), "which is no plain name"},
		{"a digest that is none", change(func(b *Build) { b.SHA256 = strings.Repeat("g", 64) }), "has no SHA-256"},
		{"a digest that is short", change(func(b *Build) { b.SHA256 = b.SHA256[1:] }), "has no SHA-256"},
		{"no size", change(func(b *Build) { b.Size = 0 }), "no believable size"},
		{"a size beyond belief", change(func(b *Build) { b.Size = 1e13 }), "no believable size"},
		{"a negative size", change(func(b *Build) { b.Size = -1 }), "no believable size"},
		{"a version that leaves the folder", func(t *testing.T, p *plane) {
			p.edit(t, func(m *Manifest) { m.Version = "../../bin" })
		}, "names the version \"../../bin\", which is no plain name"},
		{"a version that runs a command", func(t *testing.T, p *plane) {
			p.edit(t, func(m *Manifest) { m.Version = "$(touch ~/HACKED)" })
		}, "which is no plain name"},
		{"a manifest of a later kind", func(t *testing.T, p *plane) { p.edit(t, func(m *Manifest) { m.Schema = 10 }) },
			"is of a kind this script does not know"},
		{"a page instead of a manifest", serve(manifest, text("<html>\"schema\":1,</html>")), "is of a kind this script does not know"},
		{"an empty manifest", serve(manifest, text("")), "is of a kind this script does not know"},
		{"half a manifest", serve(manifest, text(`{"schema":1,"version":"1","platforms":{`)), "is of a kind this script does not know"},
		{"no manifest", serve(manifest, http.NotFound), "offers no builds"},
		{"another kind of server", serve(manifest, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }), "answered 403"},
		{"an endless manifest", serve(manifest, endless), "broke off or has no end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, h := newPlane(t, false, thisPlatform()), newHost(t)
			c.damage(t, p)
			h.env = []string{"INTERLOCK_MODEL_KEY=" + testKey}
			out, ok := h.run(t, "--url", p.URL, "--group", "g", "--role", "client")
			if ok || !strings.Contains(out, c.want) {
				t.Errorf("ok %v, want %q:\n%s", ok, c.want, out)
			}
			if calls := h.calls(t); len(calls) != 0 {
				t.Errorf("interlock ran: %q", calls)
			}
			if left := h.installed(t); left != "" {
				t.Errorf("left behind: %s", left)
			}
			if entries, _ := os.ReadDir(h.home); len(entries) != 1 {
				t.Errorf("the home folder holds %v", entries)
			}
		})
	}
}

// TestScriptRefusesOptions: before anything is fetched or written.
func TestScriptRefusesOptions(t *testing.T) {
	p := newPlane(t, false, thisPlatform())
	full := []string{"--url", p.URL, "--group", "g", "--role", "client"}
	with := func(more ...string) []string { return append(append([]string{}, full...), more...) }
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"nothing", nil, "--url is missing"},
		{"no group", []string{"--url", p.URL}, "--group is missing"},
		{"no role", full[:4], "--role is missing"},
		{"a role that is none", with("--role", "boss"), `--role is "boss"`},
		{"a runtime that is none", with("--runtime", "vllm"), `--runtime is "vllm"`},
		{"an option that is none", with("--rm"), "unknown option: --rm"},
		{"a word that is no option", with("x"), "unknown option: x"},
		{"an option without its value", with("--pin"), "--pin needs a value"},
		{"the other role's key", with("--trainer-key", "k"), "--trainer-key does not fit --role client"},
		{"a pin that is none", with("--pin", "sha1//x"), "--pin is no public key pin"},
		{"a pin with blanks", with("--pin", "sha256//a b"), "--pin is no public key pin"},
		{"a pin without TLS", with("--pin", "sha256//abc="), "--pin needs an https address"},
		{"the deriver on a client", with("--enable-mlx-gguf-deriver"), "works on a macOS trainer only"},
		{"another scheme", with("--url", "file:///etc"), "which is no http or https address"},
		{"no scheme", with("--url", "-fleet.example"), "which is no http or https address"},
		{"no host", with("--url", "https://"), "which is no http or https address"},
		{"a query", with("--url", "https://fleet.example/?x"), "which is no plain address"},
		{"a user", with("--url", "http://127.0.0.1@fleet.example"), "which is no plain address"},
		{"http to another machine", with("--url", "http://fleet.example"), "plain http, and fleet.example is another machine"},
		{"http to a name like loopback's", with("--url", "http://127.0.0.1.fleet.example:80"), "is another machine"},
		{"http to another name like loopback's", with("--url", "http://localhost.fleet.example"), "is another machine"},
		{"http to an address like loopback's", with("--url", "http://[::1]x.example"), "is another machine"},
		{"http to another address", with("--url", "http://192.0.2.7:8090/x"), "192.0.2.7 is another machine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t)
			out, ok := h.run(t, c.args...)
			if ok || !strings.Contains(out, c.want) {
				t.Errorf("ok %v, want %q:\n%s", ok, c.want, out)
			}
			if entries, _ := os.ReadDir(h.home); len(entries) != 0 {
				t.Errorf("the home folder holds %v", entries)
			}
		})
	}
	if len(p.requests) != 0 {
		t.Errorf("the server was asked for %v", p.requests)
	}
}

func TestScriptRefusesTheDeriverOnAMacForNow(t *testing.T) {
	h := newHost(t)
	h.shadow(t, "uname", "#!/bin/sh\necho Darwin\n")
	out, ok := h.run(t, "--url", "https://fleet.example", "--group", "g", "--role", "trainer", "--enable-mlx-gguf-deriver")
	if ok || !strings.Contains(out, "is not available in this version") {
		t.Fatalf("ok %v:\n%s", ok, out)
	}
}

func TestScriptHoldsTheServerToItsPin(t *testing.T) {
	p := newPlane(t, true, thisPlatform())
	for _, c := range []struct{ name, pin, want string }{
		{"no pin for a certificate of its own making", "", "take the line that carries --pin"},
		{"another key", "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "has another public key than --pin says"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t)
			args := []string{"--url", p.URL, "--group", "g", "--role", "client"}
			if c.pin != "" {
				args = append(args, "--pin", c.pin)
			}
			if out, ok := h.run(t, args...); ok || !strings.Contains(out, c.want) {
				t.Errorf("ok %v, want %q:\n%s", ok, c.want, out)
			}
			if len(p.requests) != 0 {
				t.Errorf("the server was asked for %v", p.requests)
			}
		})
	}
}

func TestScriptSaysThatNobodyAnswers(t *testing.T) {
	p, h := newPlane(t, false, thisPlatform()), newHost(t)
	p.Close()
	out, ok := h.run(t, "--url", p.URL, "--group", "g", "--role", "client")
	if ok || !strings.Contains(out, "could not be fetched") || !strings.Contains(out, "is the control plane running") {
		t.Fatalf("ok %v:\n%s", ok, out)
	}
}

func TestScriptDoesNotFollowARedirectOutOfTLS(t *testing.T) {
	plain := newPlane(t, false, thisPlatform())
	p, h := newPlane(t, true, thisPlatform()), newHost(t)
	p.overrides["/model-worker/manifest.json"] = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(plain.URL, "127.0.0.1", "0.0.0.0", 1)+r.URL.Path, http.StatusFound)
	}
	out, ok := h.run(t, "--url", p.URL, "--group", "g", "--role", "client", "--pin", p.pin())
	if ok || len(plain.requests) != 0 {
		t.Fatalf("ok %v, the plain server was asked for %v:\n%s", ok, plain.requests, out)
	}
}

// Whichever step fails, the reason and the way on are said, and nothing after it happens.
func TestScriptStopsWhereAStepFails(t *testing.T) {
	for _, c := range []struct {
		fail, said string
		calls      int
	}{
		{"agent service check", "this machine was not enrolled", 1},
		{"agent enroll", "this machine was not enrolled", 2},
		{"agent service install", "try again with: ", 3},
	} {
		t.Run(c.fail, func(t *testing.T) {
			p, h := newPlane(t, false, thisPlatform()), newHost(t)
			h.env = []string{"FAIL=" + c.fail}
			out, ok := h.run(t, "--url", p.URL, "--group", "g", "--role", "client")
			if ok || !strings.Contains(out, "interlock: no such luck") || !strings.Contains(out, c.said) {
				t.Errorf("ok %v:\n%s", ok, out)
			}
			if calls := h.calls(t); len(calls) != c.calls {
				t.Errorf("interlock was called %q", calls)
			}
		})
	}
	t.Run("agent start", func(t *testing.T) {
		p, h := newPlane(t, false, thisPlatform()), newHost(t)
		h.env = []string{"FAIL=agent start"}
		out, ok := h.run(t, "--url", p.URL, "--group", "g", "--role", "client", "--no-service")
		if ok || !strings.Contains(out, "start it with: ") || len(h.calls(t)) != 2 {
			t.Errorf("ok %v, %q:\n%s", ok, h.calls(t), out)
		}
	})
}

func TestScriptRefusesACurrentThatIsNoLink(t *testing.T) {
	p, h := newPlane(t, false, thisPlatform()), newHost(t)
	if err := os.MkdirAll(filepath.Join(h.home, ".nightshift/app/current/mine"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, ok := h.run(t, "--url", p.URL, "--group", "g", "--role", "client")
	if ok || !strings.Contains(out, "app/current is no link") {
		t.Fatalf("ok %v:\n%s", ok, out)
	}
}

// TestScriptCleansUpWhenItIsStopped stops it, with curl, in the middle of a download.
func TestScriptCleansUpWhenItIsStopped(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP} {
		t.Run(name, func(t *testing.T) {
			p, h := newPlane(t, false, thisPlatform()), newHost(t)
			began := make(chan struct{})
			p.overrides["/assets/interlock-"+thisPlatform()] = func(w http.ResponseWriter, r *http.Request) {
				close(began)
				<-r.Context().Done()
			}
			cmd := h.command(script, "--url", p.URL, "--group", "g", "--role", "client")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			<-began
			if err := syscall.Kill(-cmd.Process.Pid, signal); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Error("it ended well")
			}
			if left := h.installed(t); left != "" {
				t.Errorf("left behind: %s", left)
			}
		})
	}
}

// TestScriptCutShortRunsNothing cuts the script at every 200th byte and at each of the last ones, as a
// broken connection does.
func TestScriptCutShortRunsNothing(t *testing.T) {
	p := newPlane(t, false, thisPlatform())
	text := script
	cuts := []int{}
	for n := 0; n < len(text); n += 200 {
		cuts = append(cuts, n)
	}
	for n := len(text) - 20; n < len(text)-1; n++ { // the very last byte is only the line's end
		cuts = append(cuts, n)
	}
	for name, shell := range shells() {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, shell...)
			for _, n := range cuts {
				out, _ := h.command(text[:n], "--url", p.URL, "--group", "g", "--role", "client").CombinedOutput()
				if entries, _ := os.ReadDir(h.home); len(entries) != 0 || len(p.requests) != 0 {
					t.Fatalf("cut at byte %d of %d it did something: %v %v\n%s", n, len(text), entries, p.requests, out)
				}
			}
		})
	}
}
