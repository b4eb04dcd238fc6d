package api_test

import (
	"io"
	"strings"
	"testing"

	"interlock.sh/tasks"
)

// A request that the model server itself refuses would be refused again: OpenAI's clients must not take
// it for an outage and repeat it.
func TestARefusalByTheModelServerIsTheCallersError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	waiting := w.ask("")
	w.machine.Begin(w.machine.Take()).Fail(tasks.Failure{Code: "invalid_request_error", Message: "Unrecognized schema"})
	got := <-waiting
	text, _ := io.ReadAll(got.resp.Body)
	if got.resp.StatusCode != 400 || !strings.Contains(string(text), "Unrecognized schema") || !strings.Contains(string(text), `"type":"invalid_request_error"`) {
		t.Errorf("%d %s", got.resp.StatusCode, text)
	}
}
