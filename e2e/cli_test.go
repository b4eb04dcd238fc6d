//go:build linux

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlock.sh/access"
	"interlock.sh/ai"
	"interlock.sh/fleet"
	"interlock.sh/internal/testkit/gguftiny"
	"interlock.sh/tasks"
)

// The main job by nothing but commands that people type, over TLS with a certificate of the server's own
// making: the pin of the first login and of the pasted line is all that anybody trusts.
func TestWholeLineOverSelfSignedTLS(t *testing.T) {
	t.Parallel()
	p := newPlane(t, "--tls-self-signed")
	pin := "sha256//" + p.says("pin sha256//")
	if !strings.HasPrefix(p.base, "https://") {
		t.Fatalf("the server listens on %s", p.base)
	}

	// Nobody signs in to a server that it does not know, and the owner token is not spent by trying.
	p.refuses(p.owner, "certificate", "login")
	p.refuses(p.owner, "pin", "login", "--pin", "sha256//"+strings.Repeat("A", 43)+"=")
	if got := p.cliWith(nil, p.owner+"\n", "login", "--pin", pin, "--name", "ada"); got.code != 0 {
		t.Fatalf("login: %s%s", got.out, got.err)
	}
	p.refuses(p.owner, "", "login", "--pin", pin)
	p.ok("projects", "new", project, "--name", "Home")
	p.prints("account", "whoami")

	// Keys of every kind: shown once, listed by prefix, rolled, revoked.
	for _, k := range access.ProjectKinds {
		text := strings.TrimSpace(p.ok("keys", "new", "a "+string(k), "--kind", string(k)))
		if !strings.HasPrefix(text, "il") || strings.Contains(p.ok("keys", "list"), text) {
			t.Errorf("key of kind %s: %q, and the list shows it whole", k, text)
		}
	}
	keys := fromJSON[struct{ Keys []access.KeyView }](p, "keys", "list").Keys
	if len(keys) != len(access.ProjectKinds) {
		t.Errorf("%d keys, want one of each of %v", len(keys), access.ProjectKinds)
	}
	sdk := keyOf(t, keys, access.SDK)
	rolled := strings.TrimSpace(p.ok("keys", "roll", sdk.ID, "--yes"))
	p.ok("keys", "revoke", sdk.ID, "--yes")
	as := func(key string) output { return p.cliWith([]string{"INTERLOCK_SDK_KEY=" + key}, "", "usage") }
	if got := as(rolled); got.code != 0 {
		t.Errorf("the rolled key: %s", got.err)
	}
	if got := as("il_" + strings.Repeat("0", 48)); got.code != 1 {
		t.Errorf("an invented key: exit %d, %s", got.code, got.out)
	}

	// A group, its release, a deployment, a channel.
	dir := filepath.Join(p.dir, "my-model")
	p.prints("install-model-host.sh", "models", "register", "--dir", dir, "--name", "My Model")
	p.refuses("", "registered already", "models", "register", "--dir", dir)
	model := tiny(t, gguftiny.Options{})[0]
	p.prints("release q4 of my-model-", "models", "release", "create", "q4", "--dir", dir, "--file", model, "--license", "MIT", "--context", "1024", "--slots", "2")
	other := tiny(t, gguftiny.Options{Name: "other"})[0]
	p.refuses("", "digest", "models", "release", "create", "q4", "--dir", dir, "--file", other, "--license", "MIT", "--context", "1024", "--slots", "2")
	p.ok("models", "deploy", "q4", "--dir", dir, "--alias", "tiny-q4")
	p.ok("models", "channel", "set", "stable", "tiny-q4", "--dir", dir)

	// The pasted line, fetched from the server by its pin, makes this machine a member.
	st := fromJSON[fleet.Status](p, "models", "status", "--dir", dir)
	h := newHost(t, realServer(t))
	pasted := fromJSON[fleet.BootstrapKey](p, "models", "key", "rotate", "client", "--dir", dir).Line
	if !strings.Contains(pasted, "--pinnedpubkey '"+pin+"'") {
		t.Errorf("the line does not carry the pin:\n%s", pasted)
	}
	if got := h.paste(pasted); !strings.Contains(got.out+got.err, "enrolled as") {
		t.Fatalf("the pasted line:\n%s%s", got.out, got.err)
	}
	p.pin = pin
	p.connect()
	m := p.wantReady(st.Group.ID)

	// Runs, by alias and by channel, with their evidence and their charge.
	if said := p.ok("ask", "Hello", "--model", "tiny-q4", "--max-tokens", "7"); strings.TrimSpace(said) == "" {
		t.Error("the answer is empty")
	}
	run := fromJSON[ai.Run](p, "ask", "Hello", "--model", "My Model@stable", "--max-tokens", "7")
	if run.State != tasks.Succeeded || run.Deployment != "tiny-q4" || run.Route != "ai.self-hosted.tiny-q4" || run.Usage.CompletionTokens != 7 || run.WorkerID != m.ID {
		t.Errorf("the run: %+v", run)
	}
	p.prints(run.UsageEventID, "runs", "get", run.ID)
	if used := fromJSON[ai.UsageList](p, "usage"); used.Runs != 2 || used.Total.CompletionTokens != 14 {
		t.Errorf("usage: %+v", used)
	}
	p.prints("ready", "models", "machine", "list")
	p.prints("is to be draining", "models", "machine", "drain", m.ID)
	p.prints("is to be paused", "models", "machine", "pause", m.ID)
	p.wantState(st.Group.ID, isPaused, "paused")
	p.refuses("", "no healthy machine", "ask", "Hello", "--model", "tiny-q4")
	p.ok("models", "machine", "resume", m.ID)
	p.wantReady(st.Group.ID)
	if used := fromJSON[ai.UsageList](p, "usage"); used.Runs != 2 {
		t.Errorf("a refusal was charged: %+v", used)
	}

	// A new owner token is made on the server's machine alone.
	fresh := strings.TrimSpace(runProgram(t, p.cliEnv(nil), "", program, "admin", "owner-token", "--data", filepath.Join(p.dir, "data")).out)
	if got := p.cliWith(nil, fresh+"\n", "login", "--pin", pin, "--name", "grace"); got.code != 0 || !strings.Contains(got.out, "as grace") {
		t.Errorf("login with the new owner token: %s%s", got.out, got.err)
	}
}

// prints runs a command line that must succeed and print text.
func (p *plane) prints(text string, args ...string) {
	p.t.Helper()
	if err := missing(p.ok(args...), text); err != nil {
		p.t.Errorf("interlock %s: %v", strings.Join(args, " "), err)
	}
}

// refuses runs a command line with input that must fail with exit 1 and say text.
func (p *plane) refuses(in, text string, args ...string) {
	p.t.Helper()
	got := p.cliWith(nil, in+"\n", args...)
	if got.code != 1 || !strings.HasPrefix(got.err, "interlock: ") || !strings.Contains(got.err, text) {
		p.t.Errorf("interlock %s: exit %d, %s%s; want exit 1 and %q", strings.Join(args, " "), got.code, got.out, got.err, text)
	}
}

func keyOf(t *testing.T, keys []access.KeyView, k access.Kind) access.KeyView {
	t.Helper()
	for _, v := range keys {
		if v.Kind == k {
			return v
		}
	}
	t.Fatalf("no key of kind %s", k)
	return access.KeyView{}
}

// signedIn is a plane whose owner's command line is signed in to the project.
func signedIn(t *testing.T) *plane {
	t.Helper()
	p := newPlane(t).signIn()
	if got := p.cliWith(nil, p.token+"\n", "login"); got.code != 0 {
		t.Fatalf("login: %s", got.err)
	}
	return p
}

// What is plainly wrong is refused in words, with an exit code that tells a wrong command line from a
// refusal, and nothing comes of it.
func TestWrongInputs(t *testing.T) {
	t.Parallel()
	p := signedIn(t)
	notModel := filepath.Join(p.dir, "notes.gguf")
	if err := os.WriteFile(notModel, []byte("these are no weights"), 0o600); err != nil {
		t.Fatal(err)
	}
	model := tiny(t, gguftiny.Options{})[0]
	p.ok("models", "register", "--group", "good")
	before := fromJSON[json.RawMessage](p, "models", "status", "--group", "good")
	for _, c := range []struct {
		line string
		code int
		says []string
	}{
		{"bogus", 2, []string{`"bogus" is no command`, "--help"}},
		{"models regster", 2, []string{"did you mean register"}},
		{"ask Hello", 2, []string{"--model"}},
		{"ask Hello --model nothing", 1, []string{"nothing"}},
		{"ask Hello --model m --max-tokens 99999", 2, []string{"1 to 16384"}},
		{"ask Hello --model m --policy cheap", 2, []string{"self-hosted-only"}},
		{"ask Hello --model m --policy managed-only", 1, []string{"managed"}},
		{"keys new k --kind master", 2, []string{"sdk"}},
		{"projects new Caps", 1, []string{"Caps"}},
		{"projects new " + project, 1, []string{project}},
		{"models status --group nowhere", 1, []string{"nowhere"}},
		{"models release create r --group good --license MIT", 2, []string{"--file"}},
		{"models release create r --group good --license MIT --file " + notModel, 1, []string{"GGUF"}},
		{"models release create r --group good --file " + model, 1, []string{"license"}},
		{"models release create r --group good --license MIT --file /no/such/file", 1, []string{"/no/such/file"}},
		{"models deploy nothing --group good --alias a", 1, []string{"nothing"}},
		{"models deploy r --group good --alias a/b", 1, []string{"a/b"}},
		{"models channel set stable nothing --group good", 1, []string{"nothing"}},
		{"models key rotate janitor --group good", 2, []string{"client", "trainer"}},
		{"keys revoke key_any", 1, []string{"--yes"}},
		{"models undeploy r --group good", 1, []string{"--yes"}},
		{"models machine pause nobody", 1, []string{"nobody"}},
		{"tasks submit demo/hello@1", 1, []string{"schemaVersion", "demo/hello"}},
		{"tasks submit Demo", 1, []string{"lower-case"}},
		{"tasks submit demo/hello --input {", 1, []string{"no JSON"}},
		{"tasks submit demo/hello --priority 12", 1, []string{"priority"}},
		{"tasks get tsk_nothing", 1, []string{"tsk_nothing"}},
		{"usage --project elsewhere", 1, []string{"elsewhere"}},
		{"login --token x --api http://192.0.2.1:1", 1, []string{"plain http"}},
		{"login --token x --api http://127.0.0.1:" + freePort(t), 1, []string{"interlock serve"}},
		{"serve --data " + p.dir + "/data --listen 127.0.0.1:0", 1, []string{"data"}},
		{"serve --data " + p.dir + "/two --listen " + strings.TrimPrefix(p.base, "http://"), 1, []string{"is in use by"}},
		{"serve --data " + p.dir + "/two --listen 127.0.0.1:0 --lease 1ms", 1, []string{"--lease is 1ms"}},
		{"agent run", 1, []string{"not enrolled"}},
		{"agent status --group x extra", 2, nil},
	} {
		got := p.cli(strings.Fields(c.line)...)
		if got.code != c.code || got.out != "" {
			t.Errorf("interlock %s: exit %d, printed %q, %s; want exit %d", c.line, got.code, got.out, got.err, c.code)
		}
		if err := missing(got.err, append(c.says, "interlock: ")...); err != nil {
			t.Errorf("interlock %s: %v", c.line, err)
		}
		if strings.Contains(got.err, "panic") || strings.Contains(got.err, p.token) {
			t.Errorf("interlock %s: %s", c.line, got.err)
		}
	}
	if after := fromJSON[json.RawMessage](p, "models", "status", "--group", "good"); string(after) != string(before) {
		t.Errorf("something came of a refusal:\n%s\nwas\n%s", after, before)
	}
	if list := fromJSON[tasks.List](p, "tasks", "list"); len(list.Tasks) != 0 {
		t.Errorf("tasks came of refusals: %+v", list.Tasks)
	}
}

// A control plane does not begin on data that it cannot trust, and says what to do.
func TestServeRefusesBrokenData(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.serve.stop()
	files, err := filepath.Glob(filepath.Join(p.dir, "data", "*.db"))
	if err != nil || len(files) != 1 {
		t.Fatalf("databases: %v, %v", files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	serve := func() output {
		return runProgram(t, p.cliEnv(nil), "", program, "serve", "--data", filepath.Join(p.dir, "data"), "--listen", "127.0.0.1:0")
	}
	for name, broken := range map[string][]byte{
		"bytes flipped": append(append([]byte{}, b[:4096]...), make([]byte, len(b)-4096)...),
		"no database":   []byte("these are no pages of a database at all, but a text that somebody put here"),
	} {
		if err := os.WriteFile(files[0], broken, 0o600); err != nil {
			t.Fatal(err)
		}
		got := serve()
		if lines := strings.Split(strings.TrimSpace(got.err), "\n"); got.code != 1 || got.out != "" || len(lines) < 2 || !strings.HasPrefix(lines[0], "interlock: ") {
			t.Errorf("%s: exit %d, %s%s; want exit 1, what is wrong and the way out", name, got.code, got.out, got.err)
		}
		if now, err := os.ReadFile(files[0]); err != nil || string(now) != string(broken) {
			t.Errorf("%s: the file was written to: %v", name, err)
		}
	}
}
