package api

import (
	"encoding/json"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// described is what the test reads of /openapi.json.
type described struct {
	Paths map[string]map[string]struct {
		Summary     string
		Parameters  []struct{ Name, In string }
		RequestBody struct{ Content map[string]content }
		Responses   map[string]struct {
			Description string
			Content     map[string]content
		}
	}
	Components struct{ Schemas map[string]json.RawMessage }
}

type content struct{ Schema json.RawMessage }

// Every route says what it takes, what it answers and how it refuses, the plain ones too; and no
// description refers to one that is not there.
func TestEveryRouteIsDescribed(t *testing.T) {
	t.Parallel()
	a, _ := bare(t)
	rec := httptest.NewRecorder()
	a.ServeHTTP(rec, httptest.NewRequest("GET", "/openapi.json", nil))
	var doc described
	if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	for _, r := range a.list {
		name := r.method + " " + r.path
		op, ok := doc.Paths[strings.ReplaceAll(r.path, "...}", "}")][strings.ToLower(r.method)]
		if !ok || op.Summary == "" {
			t.Errorf("%s is not described", name)
			continue
		}
		good := 0
		for status, resp := range op.Responses {
			if resp.Description == "" {
				t.Errorf("%s: %s says nothing", name, status)
			}
			if status[0] == '2' {
				good++
			}
			if len(resp.Content) == 0 && status != "204" {
				t.Errorf("%s: the answer %s has no content", name, status)
			}
			for kind, c := range resp.Content {
				if len(c.Schema) == 0 || string(c.Schema) == "{}" {
					t.Errorf("%s: %s %s has no shape", name, status, kind)
				}
			}
		}
		if good == 0 {
			t.Errorf("%s has no answer", name)
		}
		if _, ok := op.Responses["401"]; ok == r.rule.public {
			t.Errorf("%s: 401 is described: %v", name, ok)
		}
		for _, p := range pathParams.FindAllStringSubmatch(r.path, -1) {
			if !slices.ContainsFunc(op.Parameters, func(q struct{ Name, In string }) bool {
				return q.In == "path" && q.Name == strings.TrimSuffix(p[1], "...")
			}) {
				t.Errorf("%s: parameter %s is not described", name, p[1])
			}
		}
	}
	for _, ref := range regexp.MustCompile(`"#/components/schemas/([^"]+)"`).FindAllStringSubmatch(rec.Body.String(), -1) {
		if len(doc.Components.Schemas[ref[1]]) == 0 {
			t.Errorf("no schema %s", ref[1])
		}
	}
}

// What streams, parks and moves bytes is described as it is.
func TestPlainRoutesAreDescribedAsTheyAre(t *testing.T) {
	t.Parallel()
	a, _ := bare(t)
	rec := httptest.NewRecorder()
	a.ServeHTTP(rec, httptest.NewRequest("GET", "/openapi.json", nil))
	var doc described
	if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ method, path, status, kind, param string }{
		{"get", "/api/tasks/{task}/watch", "200", "text/event-stream", "Last-Event-ID"},
		{"get", "/api/ai/runs/{run}/stream", "200", "text/event-stream", "Last-Event-ID"},
		{"get", "/api/events", "200", "text/event-stream", "project"},
		{"get", "/api/workers/events", "200", "text/event-stream", "worker"},
		{"put", "/api/blobs/uploads/{id}", "200", "application/json", "offset"},
		{"get", "/api/blobs/{sha256}", "206", "application/octet-stream", "Range"},
		{"delete", "/api/blobs/uploads/{id}", "204", "", "project"},
		{"post", "/v1/chat/completions", "200", "text/event-stream", "project"},
		{"post", "/v1/chat/completions", "200", "application/json", "project"},
		{"get", "/v1/models/{id}", "404", "application/json", "id"},
		{"get", "/api/metrics", "200", "text/plain", ""},
	} {
		op := doc.Paths[c.path][c.method]
		resp, ok := op.Responses[c.status]
		if _, of := resp.Content[c.kind]; !ok || of != (c.kind != "") {
			t.Errorf("%s %s answers %+v", c.method, c.path, op.Responses)
		}
		if c.param != "" && !slices.ContainsFunc(op.Parameters, func(p struct{ Name, In string }) bool { return p.Name == c.param }) {
			t.Errorf("%s %s: parameter %s is not described", c.method, c.path, c.param)
		}
	}
	for path, kind := range map[string]string{"/api/workers/claim": "application/json", "/v1/chat/completions": "application/json", "/api/blobs/uploads": "application/json"} {
		if len(doc.Paths[path]["post"].RequestBody.Content[kind].Schema) == 0 {
			t.Errorf("the body of %s is not described", path)
		}
	}
}
