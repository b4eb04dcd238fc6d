package api_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlock.sh/ai"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	kit "interlock.sh/internal/testkit/plane"
	"interlock.sh/server/api"
	"interlock.sh/tasks"
)

// Each bad input is refused with a code, the field, and words that name the rule; nothing of it stays.
func TestBadInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := w.mineFile()
	group := "/api/models/groups/" + w.group.ID
	release := func(change func(*fleet.NewReleaseRequest)) fleet.NewReleaseRequest {
		r := fleet.NewReleaseRequest{Name: "r", License: "x", Files: []fleet.File{file}}
		change(&r)
		return r
	}
	task := func(change func(*tasks.SubmitRequest)) tasks.SubmitRequest {
		r := tasks.SubmitRequest{Type: "demo/hello", SchemaVersion: 1}
		change(&r)
		return r
	}
	enroll := func(change func(*fleet.EnrollRequest)) fleet.EnrollRequest {
		r := fleet.EnrollRequest{Group: w.group.ID, Role: fleet.RoleClient, Name: "box"}
		change(&r)
		return r
	}
	run := func(change func(*ai.RunRequest)) ai.RunRequest {
		r := ai.RunRequest{Model: "tiny", Prompt: "hi"}
		change(&r)
		return r
	}
	word := tasks.Handler{Type: "demo/hello", SchemaVersion: 1, EffectSafety: tasks.Pure}
	for _, c := range []struct {
		name, as, method, path string
		body                   any
		code                   fault.Code
		field, says            string
	}{
		{"unknown group", "account", "GET", "/api/models/groups/nothing", nil, fault.NotFound, "group", "nothing"},
		{"group without a name", "account", "POST", "/api/models/groups", fleet.NewGroupRequest{Name: " "}, fault.Invalid, "name", "empty"},
		{"group name with control characters", "account", "POST", "/api/models/groups", fleet.NewGroupRequest{Name: "a\nb"}, fault.Invalid, "name", "control"},
		{"group name too long", "account", "POST", "/api/models/groups", fleet.NewGroupRequest{Name: strings.Repeat("ä", 121)}, fault.Invalid, "name", "121"},
		{"group name taken", "account", "POST", "/api/models/groups", fleet.NewGroupRequest{Name: w.group.Name}, fault.Conflict, "name", w.group.Name},
		{"unknown role", "account", "POST", group + "/keys/boss/rotate", nil, fault.Invalid, "role", "boss"},
		{"unknown machine", "account", "GET", "/api/machines/nothing", nil, fault.NotFound, "", "nothing"},
		{"unknown action", "account", "POST", "/api/machines/" + w.machine.ID + "/explode", nil, fault.NotFound, "", "explode"},
		{"unknown kind of key", "account", "POST", "/api/projects/mine/keys", map[string]string{"kind": "client", "label": "x"}, fault.Invalid, "kind", "client"},
		{"key without a label", "account", "POST", "/api/projects/mine/keys", map[string]string{"kind": "sdk", "label": ""}, fault.Invalid, "label", "empty"},
		{"roll of a revoked key", "account", "POST", "/api/projects/mine/keys/" + w.keyIDs["revoked sdk"] + "/roll", nil, fault.Conflict, "", "revoked"},
		{"project id", "account", "POST", "/api/projects", map[string]string{"id": "Über"}, fault.Invalid, "id", "Über"},
		{"project taken", "account", "POST", "/api/projects", map[string]string{"id": "theirs"}, fault.Conflict, "id", "theirs"},
		{"login with a key", "none", "POST", "/api/login", map[string]string{"token": w.creds["sdk"]}, fault.ScopeDenied, "", "sdk"},
		{"login with a used token", "none", "POST", "/api/login", map[string]string{"token": w.creds["revoked owner"]}, fault.Revoked, "", "revoked"},
		{"login with nothing", "none", "POST", "/api/login", map[string]string{"token": ""}, fault.Unauthenticated, "", ""},

		{"release without files", "account", "POST", group + "/releases", release(func(r *fleet.NewReleaseRequest) { r.Files = []fleet.File{} }), fault.Invalid, "files", "0"},
		{"files null", "account", "POST", group + "/releases", `{"name":"r","runtime":"llama.cpp","license":"x","files":null}`, fault.Invalid, "files", "0"},
		{"release without a license", "account", "POST", group + "/releases", release(func(r *fleet.NewReleaseRequest) { r.License = "" }), fault.Invalid, "license", "license"},
		{"unknown runtime", "account", "POST", group + "/releases", release(func(r *fleet.NewReleaseRequest) { r.Runtime = "vllm" }), fault.Invalid, "runtime", "vllm"},
		{"hash not stored", "account", "POST", group + "/releases", release(func(r *fleet.NewReleaseRequest) { r.Files[0].SHA256 = strings.Repeat("0", 64) }), fault.ChecksumUnknown, "files", "stored no bytes"},
		{"hash no hash", "account", "POST", group + "/releases", release(func(r *fleet.NewReleaseRequest) { r.Files[0].SHA256 = "../../etc/passwd" }), fault.Invalid, "files.sha256", "SHA-256"},
		{"size differs", "account", "POST", group + "/releases", release(func(r *fleet.NewReleaseRequest) { r.Files[0].Size++ }), fault.HashMismatch, "files.size", "bytes"},
		{"two files of one name", "account", "POST", group + "/releases", release(func(r *fleet.NewReleaseRequest) { r.Files = append(r.Files, r.Files[0]) }), fault.Invalid, "files.name", "two files"},
		{"context out of bounds", "account", "POST", group + "/releases", release(func(r *fleet.NewReleaseRequest) { r.ContextLength = -1 }), fault.Invalid, "contextLength", "-1"},
		{"slots out of bounds", "account", "POST", group + "/releases", release(func(r *fleet.NewReleaseRequest) { r.Slots = 65 }), fault.Invalid, "slots", "65"},

		{"unknown release", "account", "POST", group + "/deployments", fleet.NewDeploymentRequest{Release: "nothing", Alias: "a"}, fault.NotFound, "release", "nothing"},
		{"alias with capitals", "account", "POST", group + "/deployments", fleet.NewDeploymentRequest{Release: "of-tiny", Alias: "A B"}, fault.Invalid, "alias", "A B"},
		{"alias with @", "account", "POST", group + "/deployments", fleet.NewDeploymentRequest{Release: "of-tiny", Alias: "a@b"}, fault.Invalid, "alias", "a@b"},
		{"negative context of a deployment", "account", "POST", group + "/deployments", fleet.NewDeploymentRequest{Release: "of-tiny", Alias: "a", Settings: fleet.SettingsChange{ContextLength: new(-5)}}, fault.Invalid, "settings.contextLength", "-5"},
		{"negative slots of a deployment", "account", "POST", group + "/deployments", fleet.NewDeploymentRequest{Release: "of-tiny", Alias: "a", Settings: fleet.SettingsChange{Slots: new(-5)}}, fault.Invalid, "settings.slots", "-5"},
		{"route with control characters", "account", "POST", group + "/deployments", fleet.NewDeploymentRequest{Release: "of-tiny", Alias: "a", Route: "a\tb"}, fault.Invalid, "route", "control"},
		{"channel of an unknown alias", "account", "PUT", group + "/channels/stable", fleet.SetChannelRequest{Alias: "nothing"}, fault.NotFound, "alias", "nothing"},
		{"channel name", "account", "PUT", group + "/channels/a%40b", fleet.SetChannelRequest{Alias: "tiny"}, fault.Invalid, "channel", "a@b"},
		{"retire of an unknown alias", "account", "DELETE", group + "/deployments/nothing", nil, fault.NotFound, "alias", "nothing"},

		{"unknown task type", "task-producer", "POST", "/api/tasks", task(func(r *tasks.SubmitRequest) { r.Type = "Demo Hello" }), fault.UnknownTaskType, "type", "Demo Hello"},
		{"type@1", "task-producer", "POST", "/api/tasks", task(func(r *tasks.SubmitRequest) { r.Type = "demo/hello@1" }), fault.UnknownTaskType, "type", "schemaVersion"},
		{"version 0", "task-producer", "POST", "/api/tasks", task(func(r *tasks.SubmitRequest) { r.SchemaVersion = 0 }), fault.Invalid, "schemaVersion", "0"},
		{"negative delay", "task-producer", "POST", "/api/tasks", task(func(r *tasks.SubmitRequest) { r.DelayMs = -1 }), fault.Invalid, "delayMs", "-1"},
		{"negative deadline", "task-producer", "POST", "/api/tasks", task(func(r *tasks.SubmitRequest) { r.ExpiresInMs = -1 }), fault.Invalid, "expiresInMs", "-1"},
		{"unknown task", "task-producer", "GET", "/api/tasks/nothing", nil, fault.NotFound, "", "nothing"},
		{"Last-Event-ID", "task-producer", "GET", "/api/tasks?limit=-1", nil, fault.Invalid, "limit", "-1"},
		{"limit no number", "task-producer", "GET", "/api/tasks?limit=many", nil, fault.Invalid, "limit", ""},
		{"handlers null", "task-worker", "POST", "/api/workers/register", `{"workerId":"w","maxConcurrent":1,"running":0,"handlers":null}`, "", "", ""},
		{"negative wait", "task-worker", "POST", "/api/workers/claim", tasks.ClaimRequest{WorkerID: "w", Max: 1, WaitMs: -1}, fault.Invalid, "waitMs", "-1"},
		{"negative concurrency", "task-worker", "POST", "/api/workers/register", tasks.RegisterRequest{WorkerID: "w", Handlers: []tasks.Handler{word}, MaxConcurrent: -1}, fault.Invalid, "maxConcurrent", "-1"},
		{"attempts null", "task-worker", "POST", "/api/workers/renew", `{"workerId":"w","attempts":null}`, fault.Invalid, "attempts", "0"},

		{"wrong role's key", "trainer", "POST", "/api/machine/enroll", enroll(func(*fleet.EnrollRequest) {}), fault.ScopeDenied, "role", "trainer"},
		{"key of another group", "client", "POST", "/api/machine/enroll", enroll(func(r *fleet.EnrollRequest) { r.Group = "other" }), fault.ScopeDenied, "group", w.group.Name},
		{"rotated key", "revoked client", "POST", "/api/machine/enroll", enroll(func(*fleet.EnrollRequest) {}), fault.Revoked, "", "revoked"},
		{"machine without a name", "client", "POST", "/api/machine/enroll", enroll(func(r *fleet.EnrollRequest) { r.Name = "" }), fault.Invalid, "name", "empty"},
		{"machine of an unknown runtime", "client", "POST", "/api/machine/enroll", enroll(func(r *fleet.EnrollRequest) { r.Runtime = "x" }), fault.Invalid, "runtime", "x"},

		{"run without a model", "sdk", "POST", "/api/ai/runs", run(func(r *ai.RunRequest) { r.Model = "" }), fault.Invalid, "model", "empty"},
		{"run of an unknown model", "sdk", "POST", "/api/ai/runs", run(func(r *ai.RunRequest) { r.Model = "nothing" }), fault.NotFound, "model", "nothing"},
		{"run without a prompt", "sdk", "POST", "/api/ai/runs", run(func(r *ai.RunRequest) { r.Prompt = "" }), fault.Invalid, "prompt", "exactly one"},
		{"prompt and messages", "sdk", "POST", "/api/ai/runs", run(func(r *ai.RunRequest) { r.Messages = []ai.Message{{Role: "user", Content: []byte(`"x"`)}} }), fault.Invalid, "prompt", "exactly one"},
		{"too many tokens", "sdk", "POST", "/api/ai/runs", run(func(r *ai.RunRequest) { r.MaxTokens = 16385 }), fault.Invalid, "maxTokens", "16384"},
		{"too long", "sdk", "POST", "/api/ai/runs", run(func(r *ai.RunRequest) { r.TimeoutMs = 86_400_001 }), fault.Invalid, "timeoutMs", "86400000"},
		{"unknown policy", "sdk", "POST", "/api/ai/runs", run(func(r *ai.RunRequest) { r.RoutePolicy = "anywhere" }), fault.Invalid, "routePolicy", "anywhere"},
		{"long idempotency key", "sdk", "POST", "/api/ai/runs", run(func(r *ai.RunRequest) { r.IdempotencyKey = strings.Repeat("k", 199) }), fault.Invalid, "idempotencyKey", "199"},
		{"unknown run", "sdk", "GET", "/api/ai/runs/nothing", nil, fault.NotFound, "", "nothing"},

		{"no JSON", "task-producer", "POST", "/api/tasks", `{"type":`, fault.Malformed, "body", ""},
		{"no JSON on a plain route", "task-worker", "POST", "/api/workers/claim", `{"workerId":`, fault.Malformed, "body", "JSON"},
		{"nothing at all", "task-producer", "POST", "/api/tasks", nil, fault.Malformed, "body", ""},
		{"nothing at all on a plain route", "task-worker", "POST", "/api/workers/claim", nil, fault.Malformed, "body", "empty"},
		{"wrong type of a field", "task-producer", "POST", "/api/tasks", `{"type":1,"schemaVersion":1}`, fault.Invalid, "type", ""},
		{"wrong type on a plain route", "task-worker", "POST", "/api/workers/claim", `{"workerId":1}`, fault.Malformed, "workerId", "string"},
		{"half an integer", "task-producer", "POST", "/api/tasks", `{"type":"demo/hello","schemaVersion":1.5}`, fault.Invalid, "schemaVersion", "integer"},
		{"half an integer on a plain route", "task-worker", "POST", "/api/workers/claim", `{"workerId":"w","max":1.5}`, fault.Malformed, "max", "integer"},
		{"missing field", "task-producer", "POST", "/api/tasks", `{"schemaVersion":1}`, fault.Malformed, "type", "missing"},
		{"an array", "task-producer", "POST", "/api/tasks", `[]`, fault.Malformed, "body", "object"},
		{"upload without a digest", "account", "POST", "/api/blobs/uploads", `{"size":3,"sha256":"ABC"}`, fault.Invalid, "sha256", ""},
		{"negative size", "account", "POST", "/api/blobs/uploads", `{"size":-3}`, fault.Invalid, "size", "-3"},
		{"no size", "account", "POST", "/api/blobs/uploads", `{}`, fault.Invalid, "size", ""},
		{"unknown path", "account", "GET", "/api/nothing", nil, fault.NotFound, "", "/openapi.json"},
		{"unknown method", "account", "PATCH", "/api/tasks", `{}`, fault.WrongMethod, "", "PATCH"},
		{"asset outside the folder", "none", "GET", "/assets/..%2Fsecret", nil, fault.NotFound, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := c.path
			if c.as == "account" {
				path += and(path) + "project=mine"
			}
			got := w.call(c.method, path, w.creds[c.as], c.body)
			if c.code == "" {
				if got.status != 200 {
					t.Errorf("%d %s", got.status, got.body)
				}
				return
			}
			if got.err.Code != c.code || got.status != c.code.Status() || c.field != "" && got.err.Field != c.field || !strings.Contains(got.body, c.says) {
				t.Errorf("%d %s; want %s, field %q, saying %q", got.status, got.body, c.code, c.field, c.says)
			}
		})
	}
	st, err := w.mine.GroupStatus(t.Context(), w.group.ID)
	if err != nil || len(st.Releases) != 1 || len(st.Deployments) != 1 || len(st.Machines) != 2 || len(st.Channels) != 0 {
		t.Errorf("something of it stayed: %+v %v", st, err)
	}
}

// Names of files in a release are plain names, whatever system a machine runs.
func TestFileNamesStayInTheirFolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{
		"../x.gguf", "..", ".", "a/b.gguf", `a\b.gguf`, "/etc/passwd", `C:\x`, "c:x", "-rf", "--help", "a\x00b", "x\n", "", " ", "a/../b", "\xff\xfe", strings.Repeat("n", 121),
	} {
		file := w.mineFile()
		file.Name = name
		got := w.call("POST", "/api/models/groups/"+w.group.ID+"/releases?project=mine", w.creds["account"],
			fleet.NewReleaseRequest{Name: "r", License: "x", Files: []fleet.File{file}})
		if name == "\xff\xfe" { // JSON cannot carry it: it arrives as two replacement characters, a plain name
			continue
		}
		w.refused("file name "+name, got, fault.Invalid, "files.name")
	}
}

// A name once used keeps its bytes: releases, and the aliases that name them.
func TestNamesKeepTheirBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	group := "/api/models/groups/" + w.group.ID
	other := w.Upload(w.mine, kit.TinyModel(t, 7, 1)...)
	same := fleet.NewReleaseRequest{Name: "of-tiny", License: "test", Slots: 2, Files: []fleet.File{w.mineFile()}}
	if got := w.call("POST", group+"/releases?project=mine", w.creds["account"], same); got.status != 200 {
		t.Errorf("the same release again: %d %s", got.status, got.body)
	}
	for name, change := range map[string]func(*fleet.NewReleaseRequest){
		"bytes":     func(r *fleet.NewReleaseRequest) { r.Files = other },
		"license":   func(r *fleet.NewReleaseRequest) { r.License = "other" },
		"slots":     func(r *fleet.NewReleaseRequest) { r.Slots = 3 },
		"arguments": func(r *fleet.NewReleaseRequest) { r.Args = []string{"--x"} },
		"file name": func(r *fleet.NewReleaseRequest) {
			r.Files = []fleet.File{{Name: "y.gguf", SHA256: r.Files[0].SHA256, Size: r.Files[0].Size}}
		},
	} {
		req := same
		change(&req)
		got := w.call("POST", group+"/releases?project=mine", w.creds["account"], req)
		w.refused("release with other "+name, got, fault.ReleaseConflict, "")
		old, _ := got.err.Details["digest"].(string)
		offered, _ := got.err.Details["offered"].(string)
		if len(old) != 64 || len(offered) != 64 || old == offered || !strings.Contains(got.err.Message, old) || !strings.Contains(got.err.Message, offered) {
			t.Errorf("both digests are wanted: %s", got.body)
		}
	}
	if got := w.call("POST", group+"/releases?project=mine", w.creds["account"], fleet.NewReleaseRequest{Name: "other", License: "x", Files: other}); got.status != 200 {
		t.Fatal(got.body)
	}
	w.refused("alias reused", w.call("POST", group+"/deployments?project=mine", w.creds["account"], fleet.NewDeploymentRequest{Release: "other", Alias: "tiny"}), fault.AliasTaken, "alias")
	if got := w.call("DELETE", group+"/deployments/tiny?project=mine", w.creds["account"], nil); got.status != 200 {
		t.Fatal(got.body)
	}
	w.refused("alias of a retired deployment reused", w.call("POST", group+"/deployments?project=mine", w.creds["account"], fleet.NewDeploymentRequest{Release: "other", Alias: "tiny"}), fault.AliasTaken, "alias")
	w.refused("run of a retired deployment", w.call("POST", "/api/ai/runs", w.creds["sdk"], ai.RunRequest{Model: "tiny", Prompt: "x"}), fault.NoEligibleWorker, "model")
	if got := w.call("POST", group+"/deployments?project=mine", w.creds["account"], fleet.NewDeploymentRequest{Release: "of-tiny", Alias: "tiny"}); got.status != 200 || strings.Contains(got.body, "retiredAt") {
		t.Errorf("the same weights come back: %d %s", got.status, got.body)
	}
}

// What is no model, or not the whole of one, never becomes a release.
func TestAReleaseIsAWholeModel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := filepath.Join(t.TempDir(), "readme.gguf")
	if err := os.WriteFile(text, []byte("this is no model at all, but long enough to look at\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	shards := w.Upload(w.mine, kit.TinyModel(t, 3, 3)...)
	whole := w.Upload(w.mine, kit.TinyModel(t, 4, 1)...)
	for name, c := range map[string]struct {
		files []fleet.File
		says  string
	}{
		"no GGUF":             {w.Upload(w.mine, text), "GGUF"},
		"a shard is missing":  {shards[:2], "of 3"},
		"only one shard":      {shards[:1], "of 3"},
		"shards out of order": {[]fleet.File{shards[0], shards[2], shards[1]}, "order"},
		"a whole one beside":  {[]fleet.File{whole[0], shards[0]}, "whole model"},
	} {
		got := w.call("POST", "/api/models/groups/"+w.group.ID+"/releases?project=mine", w.creds["account"], fleet.NewReleaseRequest{Name: "r", License: "x", Files: c.files})
		w.refused(name, got, fault.Invalid, "files")
		if !strings.Contains(got.body, c.says) {
			t.Errorf("%s: %s", name, got.body)
		}
	}
	got := w.call("POST", "/api/models/groups/"+w.group.ID+"/releases?project=mine", w.creds["account"], fleet.NewReleaseRequest{Name: "r", License: "x", Files: shards})
	if got.status != 200 || !strings.Contains(got.body, `"architecture":"llama"`) {
		t.Errorf("three shards in order: %d %s", got.status, got.body)
	}
}

// Every route that takes a body has a limit that it names, whether the length was announced or not.
func TestBodiesHaveALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, r := range api.Routes() {
		name := r.Method + " " + r.Path
		kinds := strings.Fields(allowed[name])
		if r.Method == "GET" || r.Method == "DELETE" || len(kinds) == 0 {
			continue
		}
		as := kinds[0]
		if as == "*" {
			as = "none"
		}
		path := fill(r.Path, map[string]string{"project": "mine", "action": "resume", "role": "client", "file": "1.targets.json", "machine": w.machine.ID, "group": w.group.ID})
		if as == "account" {
			path += and(path) + "project=mine"
		}
		body := append([]byte(`{"x":"`), bytes.Repeat([]byte("x"), int(r.Limit))...)
		for how, reader := range map[string]io.Reader{"announced": bytes.NewReader(body), "chunked": io.MultiReader(bytes.NewReader(body))} {
			got := w.call(r.Method, path, w.creds[as], reader)
			// Routes that read no body answer as they would without one.
			if how == "chunked" && (strings.Contains(r.Path, "rotate") || strings.Contains(r.Path, "roll") || strings.Contains(r.Path, "{action}")) {
				continue
			}
			if strings.HasPrefix(r.Path, "/v1/") {
				if got.status != 413 || !strings.Contains(got.body, "8388608") {
					t.Errorf("%s %s: %d %.200s", name, how, got.status, got.body)
				}
				continue
			}
			if how == "chunked" && strings.HasPrefix(r.Path, "/api/blobs/uploads/{id}") {
				continue // there is no such upload: it is not read
			}
			if limit, _ := got.err.Details["limit"].(float64); got.err.Code != fault.TooLarge || int64(limit) != r.Limit {
				t.Errorf("%s %s: %d %.200s; want %d", name, how, got.status, got.body, r.Limit)
			}
		}
	}
}

// Machines and workers of a later version say more than this server knows, and numbers as their language
// writes them.
func TestNewerPeersAreUnderstood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct{ name, as, path, body string }{ // in this order: a claim wants a registration
		{"heartbeat", "machine", "/api/machine/heartbeat", `{"instance":"first-of-garage","hostId":"host-of-garage","version":"9.9","desiredVersion":1.0,"state":{"kind":"dreaming","mood":"x"},
			"host":{"hostname":"garage","quantumCores":3},"deployments":[{"id":"d","alias":"a","state":{"kind":"ready"},"slots":2.0,"novel":[1,2]}],"extra":{"a":1}}`},
		{"heartbeat with null", "machine", "/api/machine/heartbeat", `{"instance":"first-of-garage","hostId":"host-of-garage","version":"9.9","desiredVersion":1,"state":{"kind":"idle"},"host":{},"deployments":null,"warnings":null}`},
		{"enroll", "client", "/api/machine/enroll", `{"group":"` + w.group.ID + `","role":"client","name":"new","hostId":"h","host":{"cores":8.0,"memoryTotal":1e9},"version":"9","novel":true}`},
		{"register", "task-worker", "/api/workers/register", `{"workerId":"w","maxConcurrent":2.0,"running":0e0,"handlers":[{"type":"demo/hello","schemaVersion":1.0,"effectSafety":"pure","novel":1}],"pools":null,"novel":1}`},
		{"claim", "task-worker", "/api/workers/claim", `{"workerId":"w","max":1.0,"waitMs":0.0,"novel":{}}`},
	} {
		if got := w.call("POST", c.path, w.creds[c.as], c.body); got.status != 200 {
			t.Errorf("%s: %d %s", c.name, got.status, got.body)
		}
	}
	// What is kept as it came is not rewritten beside it.
	got := w.call("POST", "/api/tasks", w.creds["task-producer"], `{"type":"demo/hello","schemaVersion":1.0,"priority":2121.0e-3,"input":{"n":1.0}}`)
	w.refused("a priority of 2.121", got, fault.Invalid, "priority")
	got = w.call("POST", "/api/tasks", w.creds["task-producer"], `{"type":"demo/hello","schemaVersion":1.0,"priority":2.0,"input":{"n":1.0}}`)
	if got.status != 200 || !strings.Contains(got.body, `"input":{"n":1.0}`) || !strings.Contains(got.body, `"priority":2,`) {
		t.Errorf("%d %s", got.status, got.body)
	}
}
