package api_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"interlock.sh/access"
	"interlock.sh/fault"
	kit "interlock.sh/internal/testkit/plane"
	"interlock.sh/server"
)

// An account says which project it means, unless it has only one.
func TestWhichProject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	login, err := w.Client("").Login(t.Context(), access.LoginRequest{Token: w.ownerToken(), Name: "fresh"})
	if err != nil {
		t.Fatal(err)
	}
	w.refused("several", w.call("GET", "/api/machines", login.Token, nil), fault.Invalid, "project") // demo, mine, theirs were there
	w.refused("several", w.call("GET", "/api/machines", w.creds["account"], nil), fault.Invalid, "project")
	if got := w.call("GET", "/api/machines?project=mine", w.creds["account"], nil); got.status != 200 {
		t.Errorf("named: %d %s", got.status, got.body)
	}
	w.refused("none of that name", w.call("GET", "/api/machines?project=nothing", w.creds["account"], nil), fault.NotFound, "")
	for _, as := range []string{"sdk", "task-producer", "task-worker", "metrics", "client", "machine"} {
		w.refused(as+" names another", w.call("GET", "/api/whoami?project=theirs", w.creds[as], nil), fault.ScopeDenied, "project")
		if got := w.call("GET", "/api/whoami?project=mine", w.creds[as], nil); got.status != 200 {
			t.Errorf("%s names its own: %d %s", as, got.status, got.body)
		}
	}
}

// The only project that an account has needs no naming.
func TestTheOnlyProject(t *testing.T) {
	t.Parallel()
	p := kit.Start(t, kit.Options{}) // makes "demo"
	if ms, err := p.Client(p.Token).Machines(t.Context()); err != nil || len(ms) != 0 {
		t.Errorf("%v %v", ms, err)
	}
}

func TestWhoami(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, want := range map[string]access.Whoami{
		"account":         {Kind: access.Account, Account: "owner"},
		"sdk":             {Kind: access.SDK, Project: "mine", Label: "sdk"},
		"metrics":         {Kind: access.Metrics, Project: "mine", Label: "metrics"},
		"client":          {Kind: access.Client, Project: "mine", Label: "client", Group: w.group.ID, Role: "client"},
		"machine":         {Kind: access.Machine, Project: "mine", Label: "garage", Group: w.group.ID, Role: "client", Machine: w.machine.ID},
		"trainer machine": {Kind: access.Machine, Project: "mine", Label: "gym", Group: w.group.ID, Role: "trainer", Machine: w.trainer.ID},
	} {
		var got access.Whoami
		if err := json.Unmarshal([]byte(w.call("GET", "/api/whoami", w.creds[name], nil).body), &got); err != nil {
			t.Fatal(err)
		}
		var projects []string
		for _, p := range got.Projects {
			projects = append(projects, p.ID)
		}
		if name == "account" && !slices.Equal(projects, []string{"demo", "mine"}) {
			t.Errorf("the account's projects: %q", projects)
		}
		same := got.Kind == want.Kind && got.Account == want.Account && got.Project == want.Project && got.Group == want.Group && got.Role == want.Role && got.Machine == want.Machine
		if !same || want.Label != "" && got.Label != want.Label || got.KeyID == "" || len(got.Scopes) == 0 || got.Version != "test" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// The builds that the server offers, and the names that it does not.
func TestAssets(t *testing.T) {
	t.Parallel()
	outer := t.TempDir()
	dir := filepath.Join(outer, "assets")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{filepath.Join(dir, "interlock-linux-amd64"): "a program", filepath.Join(outer, "secret"): "secret", filepath.Join(dir, ".hidden"): "secret"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{Plane: kit.Start(t, kit.Options{Change: func(c *server.Config) { c.Assets = dir }}), t: t}
	w.http = newHTTP(t)
	if got := w.call("GET", "/assets/install-model-host.sh", "", nil); got.status != 200 || !strings.HasPrefix(got.body, "#!/bin/sh") || got.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the script: %d %.80s", got.status, got.body)
	}
	if got := w.call("GET", "/assets/interlock-linux-amd64", "", nil); got.status != 200 || got.body != "a program" {
		t.Errorf("a build: %d %s", got.status, got.body)
	}
	for _, name := range []string{"interlock-plan9-mips", "..%2Fsecret", "%2e%2e%2fsecret", ".hidden", "..", "%2Fetc%2Fpasswd", "x%00"} {
		got := w.call("GET", "/assets/"+name, "", nil)
		if got.status != 404 && got.status != 400 || strings.Contains(got.body, "secret\n") || got.body == "secret" {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
		if name == "interlock-plan9-mips" && !strings.Contains(got.body, "plan9-mips") {
			t.Errorf("a missing platform is not named: %s", got.body)
		}
	}
}

// A metrics key counts its own project's tasks and machines, and nobody else's.
func TestMetricsAreOfTheKeysProject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.task()
	for key, want := range map[string]struct{ tasks, machines float64 }{"metrics": {1, 2}, "their metrics": {0, 0}} {
		tasks := w.gaugeAs(key, `interlock_tasks{state="queued"}`)
		machines := w.gaugeAs(key, `interlock_machines{state="online"}`) + w.gaugeAs(key, `interlock_machines{state="offline"}`)
		if tasks != want.tasks || machines != want.machines || w.gaugeAs(key, "interlock_http_in_flight") < 1 {
			t.Errorf("%s: %v tasks, %v machines", key, tasks, machines)
		}
	}
}
