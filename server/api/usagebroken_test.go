package api_test

import (
	"encoding/json"
	"testing"

	"interlock.sh/ai"
	"interlock.sh/tasks"
)

// An attempt that broke off is billed for the tokens it gave, not for the chunks that only say who speaks.
func TestABrokenAnswerIsBilledByItsTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run("hi")
	a := w.machine.Begin(w.machine.Take())
	a.Chunk(ai.Chunk{Delta: json.RawMessage(`{"role":"assistant","content":null}`)})
	a.Say("one", "two")
	a.Chunk(ai.Chunk{Delta: json.RawMessage(`{"reasoning_content":"three"}`)})
	a.Chunk(ai.Chunk{Delta: json.RawMessage(`{}`), FinishReason: "stop"})
	a.Fail(tasks.Failure{Code: "CRASHED", Message: "the model server crashed"})
	list, err := w.mine.Usage(t.Context(), "", 0)
	if err != nil || len(list.Events) != 1 || list.Events[0].RunID != run.ID || list.Events[0].Usage.CompletionTokens != 3 {
		t.Errorf("%+v %v", list, err)
	}
}
