package api_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/server/api"
	"interlock.sh/tasks"
)

// allowed is the authorization of the whole API, written down apart from the code: route → kinds. A
// route of the table that is missing here, or the other way round, fails the test.
var allowed = map[string]string{
	"GET /q/health":                                         "*",
	"GET /openapi.json":                                     "*",
	"GET /api/metrics":                                      "metrics",
	"POST /api/login":                                       "*",
	"GET /api/whoami":                                       "account sdk task-producer task-worker metrics client trainer machine",
	"GET /api/projects":                                     "account",
	"POST /api/projects":                                    "account",
	"GET /api/projects/{project}/keys":                      "account",
	"POST /api/projects/{project}/keys":                     "account",
	"POST /api/projects/{project}/keys/{key}/roll":          "account",
	"DELETE /api/projects/{project}/keys/{key}":             "account",
	"GET /api/models/groups":                                "account",
	"POST /api/models/groups":                               "account",
	"GET /api/models/groups/{group}":                        "account",
	"GET /api/models/groups/{group}/keys":                   "account",
	"POST /api/models/groups/{group}/keys/{role}/rotate":    "account",
	"POST /api/models/groups/{group}/releases":              "account",
	"POST /api/models/groups/{group}/deployments":           "account",
	"DELETE /api/models/groups/{group}/deployments/{alias}": "account",
	"PUT /api/models/groups/{group}/channels/{channel}":     "account",
	"DELETE /api/models/groups/{group}/channels/{channel}":  "account",
	"GET /api/machines":                                     "account",
	"GET /api/machines/{machine}":                           "account",
	"POST /api/machines/{machine}/{action}":                 "account",
	"POST /api/machine/enroll":                              "client trainer",
	"GET /api/machine/self":                                 "machine",
	"GET /api/machine/desired":                              "machine",
	"POST /api/machine/heartbeat":                           "machine",
	"POST /api/blobs/uploads":                               "account",
	"GET /api/blobs/uploads/{id}":                           "account",
	"PUT /api/blobs/uploads/{id}":                           "account",
	"DELETE /api/blobs/uploads/{id}":                        "account",
	"POST /api/blobs/uploads/{id}/finish":                   "account",
	"GET /api/blobs/{sha256}":                               "account machine task-worker",
	"GET /assets/{name}":                                    "*",
	"GET /model-worker/manifest.json":                       "*",
	"PUT /api/releases/metadata/{file}":                     "account",
	"GET /model-worker/tuf/metadata/{file}":                 "*",
	"GET /model-worker/tuf/targets/{path...}":               "*",
	"POST /api/tasks":                                       "account task-producer",
	"GET /api/tasks":                                        "account task-producer",
	"GET /api/tasks/{task}":                                 "account task-producer",
	"POST /api/tasks/{task}/cancel":                         "account task-producer",
	"GET /api/tasks/{task}/journal":                         "account task-producer",
	"GET /api/tasks/{task}/watch":                           "account task-producer",
	"GET /api/workers":                                      "account task-producer",
	"POST /api/workers/register":                            "task-worker machine",
	"DELETE /api/workers/{worker}":                          "task-worker machine",
	"POST /api/workers/claim":                               "task-worker machine",
	"POST /api/workers/renew":                               "task-worker machine",
	"POST /api/workers/progress":                            "task-worker machine",
	"POST /api/workers/log":                                 "task-worker machine",
	"POST /api/workers/delta":                               "task-worker machine",
	"POST /api/workers/complete":                            "task-worker machine",
	"POST /api/workers/fail":                                "task-worker machine",
	"POST /api/workers/unknown":                             "task-worker machine",
	"GET /api/workers/events":                               "task-worker machine",
	"POST /api/ai/runs":                                     "account sdk",
	"GET /api/ai/runs":                                      "account sdk",
	"GET /api/ai/runs/{run}":                                "account sdk",
	"POST /api/ai/runs/{run}/cancel":                        "account sdk",
	"GET /api/ai/runs/{run}/stream":                         "account sdk",
	"GET /api/usage":                                        "account sdk",
	"GET /v1/models":                                        "account sdk",
	"GET /v1/models/{id...}":                                "account sdk",
	"POST /v1/chat/completions":                             "account sdk",
	"GET /api/events":                                       "account sdk task-producer",
}

var param = regexp.MustCompile(`\{([\w.]+)\}`)

// fill puts values into a route's path; what has none is "nothing".
func fill(path string, values map[string]string) string {
	return param.ReplaceAllStringFunc(path, func(p string) string {
		if v, ok := values[p[1:len(p)-1]]; ok {
			return v
		}
		return "nothing"
	})
}

func bodyFor(method string) any {
	if method == "GET" || method == "DELETE" {
		return nil
	}
	return "{}"
}

// codeOf is a reply's code, also where it is in OpenAI's shape.
func codeOf(r reply) fault.Code {
	switch {
	case r.err.Code != "":
		return r.err.Code
	case strings.Contains(r.body, `"SCOPE_DENIED"`):
		return fault.ScopeDenied
	case strings.Contains(r.body, `"invalid_api_key"`) && strings.Contains(r.body, "was revoked"):
		return fault.Revoked
	case strings.Contains(r.body, `"invalid_api_key"`):
		return fault.Unauthenticated
	}
	return ""
}

// Every route × every credential: nobody gets further than the table above says.
func TestTheRefusalMatrix(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	routes := api.Routes()
	for _, r := range routes {
		if _, ok := allowed[r.Method+" "+r.Path]; !ok {
			t.Errorf("%s %s has no line in this test: who may call it?", r.Method, r.Path)
		}
	}
	if len(routes) != len(allowed) {
		t.Errorf("%d routes, %d lines in this test", len(routes), len(allowed))
	}
	names := []string{
		"none", "garbage", "account", "sdk", "task-producer", "task-worker", "metrics", "client", "trainer", "machine", "trainer machine", "owner",
		"revoked sdk", "revoked task-producer", "revoked task-worker", "revoked metrics", "revoked client", "revoked trainer", "revoked machine", "revoked owner",
	}
	cells := 0
	check := func(name string) {
		for _, r := range routes {
			values := map[string]string{"project": "mine", "action": "resume", "role": "client"}
			switch name {
			case "machine":
				values["worker"] = w.machine.ID
			case "trainer machine":
				values["worker"] = w.trainer.ID
			}
			path := fill(r.Path, values)
			if name == "account" {
				path += "?project=mine"
			}
			got := w.call(r.Method, path, w.creds[name], bodyFor(r.Method))
			want, may := expected(name, allowed[r.Method+" "+r.Path])
			code := codeOf(got)
			denied := code == fault.Unauthenticated || code == fault.Revoked || code == fault.ScopeDenied
			if may && denied || !may && (code != want || got.status != want.Status()) {
				t.Errorf("%s as %s: %d %s %s; want %s", r.Method+" "+r.Path, name, got.status, code, got.body, want)
			}
			if code.Status() == 401 && denied && got.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s as %s: 401 without WWW-Authenticate", r.Method+" "+r.Path, name)
			}
			cells++
		}
	}
	for _, name := range names {
		check(name)
	}
	w.clock.Advance(25 * time.Hour)
	w.creds["expired owner"] = w.creds["owner"]
	check("expired owner")
	t.Logf("%d routes × %d credentials = %d cells", len(routes), len(names)+1, cells)
}

// expected is the outcome of a credential on a route with these kinds.
func expected(name, kinds string) (fault.Code, bool) {
	kind := strings.TrimPrefix(name, "trainer ")
	switch {
	case kinds == "*":
		return "", true
	case name == "none", name == "garbage", name == "expired owner":
		return fault.Unauthenticated, false
	case strings.HasPrefix(name, "revoked "):
		return fault.Revoked, false
	case slices.Contains(strings.Fields(kinds), kind):
		return "", true
	}
	return fault.ScopeDenied, false
}

// The things of one project do not exist for another: same code, same words as for what is nowhere.
func TestAnotherProjectsThingsDoNotExist(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run("hello")
	file := w.mineFile()
	upload := w.call("POST", "/api/blobs/uploads?project=mine", w.creds["account"], `{"size":10}`)
	var up struct {
		ID string `json:"uploadId"`
	}
	if err := json.Unmarshal([]byte(upload.body), &up); err != nil || up.ID == "" {
		t.Fatal(upload.body, err)
	}
	real := map[string]string{
		"project": "mine", "key": w.keyIDs["sdk"], "group": w.group.ID, "role": "client", "alias": "tiny", "channel": "stable",
		"machine": w.machine.ID, "action": "pause", "id": up.ID, "sha256": file.SHA256, "task": run.TaskID, "run": run.ID,
	}
	// Bodies that would do something, were they let through.
	bodies := map[string]any{
		"POST /api/projects/{project}/keys":                 map[string]string{"kind": "sdk", "label": "x"},
		"POST /api/models/groups":                           fleet.NewGroupRequest{Name: "x"},
		"POST /api/models/groups/{group}/releases":          fleet.NewReleaseRequest{Name: "x", License: "x", Files: []fleet.File{file}},
		"POST /api/models/groups/{group}/deployments":       fleet.NewDeploymentRequest{Release: "of-tiny", Alias: "x"},
		"PUT /api/models/groups/{group}/channels/{channel}": fleet.SetChannelRequest{Alias: "tiny"},
		"POST /api/tasks":                                   tasks.SubmitRequest{Type: "demo/hello", SchemaVersion: 1},
		"POST /api/ai/runs":                                 map[string]string{"model": "tiny", "prompt": "hi"},
		"POST /v1/chat/completions":                         map[string]any{"model": "tiny", "messages": []map[string]string{{"role": "user", "content": "hi"}}},
		"POST /api/blobs/uploads":                           map[string]int{"size": 3},
		"PUT /api/blobs/uploads/{id}":                       "abc",
	}
	noProject := []string{"GET /api/whoami", "GET /api/projects", "POST /api/projects", "PUT /api/releases/metadata/{file}"}
	callers := map[string]string{"account": "stranger", "sdk": "their sdk", "task-producer": "their task-producer"}
	for _, r := range api.Routes() {
		name := r.Method + " " + r.Path
		if allowed[name] == "*" || slices.Contains(noProject, name) {
			continue
		}
		for kind, who := range callers {
			if !slices.Contains(strings.Fields(allowed[name]), kind) {
				continue
			}
			body := bodies[name]
			if body == nil {
				body = bodyFor(r.Method)
			}
			path := fill(r.Path, real) + query(r, "offset=0")
			// In the other's project.
			got := w.call(r.Method, path+and(path)+"project=mine", w.creds[who], body)
			want := fault.ScopeDenied
			if kind == "account" {
				want = fault.NotFound
			}
			if got.status != want.Status() {
				t.Errorf("%s as %s with ?project=mine: %d %s", name, who, got.status, got.body)
			}
			// In one's own, by the other's ids.
			ids := param.FindAllStringSubmatch(r.Path, -1)
			if len(ids) == 0 || strings.Contains(r.Path, "{project}") {
				continue
			}
			own := ""
			if kind == "account" {
				own = and(path) + "project=theirs"
			}
			got = w.call(r.Method, path+own, w.creds[who], body)
			if got.status != 404 {
				t.Errorf("%s as %s by foreign ids: %d %s", name, who, got.status, got.body)
			}
			nowhere := map[string]string{}
			for k, v := range real {
				nowhere[k] = strings.Map(rotate, v)
			}
			nowhere["role"], nowhere["action"], nowhere["channel"] = "client", "pause", "stable"
			missing := fill(r.Path, nowhere) + query(r, "offset=0")
			never := w.call(r.Method, missing+own, w.creds[who], body)
			if anonymous(got.body, real) != anonymous(never.body, nowhere) {
				t.Errorf("%s as %s: what exists elsewhere is told apart from what exists nowhere:\n%s%s", name, who, got.body, never.body)
			}
		}
	}
	if w.call("GET", "/api/machines/"+w.machine.ID+"?project=mine", w.creds["account"], nil).status != 200 {
		t.Error("the owner's own machine is not there any more")
	}
	m, err := w.mine.Machine(t.Context(), w.machine.ID)
	if err != nil || m.Machine.Mode != fleet.Active {
		t.Errorf("the stranger changed the machine: %+v %v", m.Machine.Mode, err)
	}
}

func query(r api.Route, q string) string {
	if r.Method == "PUT" && strings.Contains(r.Path, "uploads") {
		return "?" + q
	}
	return ""
}

func and(path string) string {
	if strings.Contains(path, "?") {
		return "&"
	}
	return "?"
}

// rotate makes an id of another one that looks alike: digits and a to e are exchanged among themselves.
func rotate(r rune) rune {
	switch {
	case r >= '0' && r <= '8', r >= 'a' && r <= 'e':
		return r + 1
	case r == '9':
		return '0'
	case r == 'f':
		return 'a'
	}
	return r
}

func anonymous(body string, values map[string]string) string {
	for _, v := range values {
		if len(v) > 3 {
			body = strings.ReplaceAll(body, v, "…")
		}
	}
	return body
}

func (w *world) mineFile() fleet.File {
	w.t.Helper()
	st, err := w.mine.GroupStatus(w.t.Context(), w.group.ID)
	if err != nil || len(st.Releases) == 0 {
		w.t.Fatal(err)
	}
	return st.Releases[0].Files[0]
}
