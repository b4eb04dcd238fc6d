package api_test

import (
	"strings"
	"testing"

	"interlock.sh/fault"
)

// Who hands work out is told of a field that does not exist: a mistyped idempotency key would admit the
// work twice. A worker or agent that is newer than the control plane is not refused for what it adds.
func TestUnknownFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct{ as, path, body, field string }{
		{"task-producer", "/api/tasks", `{"type":"demo/hello","schemaVersion":1,"idempotency_key":"k"}`, "idempotency_key"},
		{"account", "/api/tasks?project=mine", `{"type":"demo/hello","schemaVersion":1,"retries":3}`, "retries"},
		{"sdk", "/api/ai/runs", `{"model":"tiny","prompt":"hi","idempotency_key":"k"}`, "idempotency_key"},
		{"sdk", "/api/ai/runs", `{"model":"tiny","prompt":"hi","max_tokens":5}`, "max_tokens"},
	} {
		got := w.call("POST", c.path, w.creds[c.as], c.body)
		w.refused(c.path+" with "+c.field, got, fault.Invalid, c.field)
		if !strings.Contains(got.err.Message, c.field) || got.status != 400 {
			t.Errorf("%d: the field is not named: %s", got.status, got.body)
		}
	}
	w.nothingHappened()
	other := w.call("POST", "/api/tasks", w.creds["task-producer"], `{"type":"demo/hello","schemaVersion":1,"idempotencykey":"k"}`)
	if other.status != 200 || !strings.Contains(other.body, `"idempotencyKey":"k"`) {
		t.Errorf("a name in other letters counts: %s", other.body)
	}
	input := `{"type":"demo/hello","schemaVersion":1,"input":{"any":{"thing":1}},"correlations":{"mine":"x"}}`
	if got := w.call("POST", "/api/tasks", w.creds["task-producer"], input); got.status != 200 {
		t.Errorf("fields of the input are the caller's own: %s", got.body)
	}
	chat := `{"model":"tiny","messages":[{"role":"user","content":"hi","name":"Ada","novel":1}]}`
	if got := w.call("POST", "/api/ai/runs", w.creds["sdk"], chat); got.status != 200 {
		t.Errorf("fields of a message: %s", got.body)
	}
	newer := `{"workerId":"w","maxConcurrent":1,"running":0,"novel":1,"handlers":[{"type":"demo/hello","schemaVersion":1,"effectSafety":"pure","novel":2}]}`
	if got := w.call("POST", "/api/workers/register", w.creds["task-worker"], newer); got.status != 200 {
		t.Errorf("a newer worker: %s", got.body)
	}
}
