package worker

import (
	"context"
	"encoding/json"
	"testing"

	"interlock.sh/fault"
	"interlock.sh/tasks"
)

// counting takes completions and notes how many came in each request.
type counting struct {
	Transport
	sizes []int
	bad   string // task whose completion spoils its request
}

func (c *counting) CompleteTasks(_ context.Context, req tasks.CompleteRequest) (out tasks.CompleteResponse, err error) {
	c.sizes = append(c.sizes, len(req.Completions))
	for _, done := range req.Completions {
		if done.TaskID == c.bad {
			return out, fault.New(fault.Invalid, "no")
		}
		out.Outcomes = append(out.Outcomes, tasks.Outcome{TaskID: done.TaskID, State: tasks.Succeeded})
	}
	return out, nil
}

// pile puts completions with results of one size before the batcher, and lets it send them all.
func pile(t *testing.T, c *counting, n, size int) (answers []error) {
	t.Helper()
	w, err := New(c, Options{WorkerID: "w1"})
	if err != nil {
		t.Fatal(err)
	}
	all := make([]sending, n)
	for i := range all {
		id := string(rune('a' + i%26))
		all[i] = sending{tasks.Completion{Ref: tasks.Ref{TaskID: id}, Result: make(json.RawMessage, size)}, make(chan error, 1)}
		w.completions <- all[i]
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.batchLoop(ctx)
	}()
	for _, s := range all {
		answers = append(answers, <-s.answer)
	}
	cancel()
	<-done
	return answers
}

func TestCompletionsThatPileUpShareARequest(t *testing.T) {
	c := &counting{}
	for _, err := range pile(t, c, 20, 10) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(c.sizes) != 1 || c.sizes[0] != 20 {
		t.Errorf("sent in requests of %v, want one of 20", c.sizes)
	}
}

func TestBatchOfBigResultsPassesAProxy(t *testing.T) {
	c := &counting{}
	pile(t, c, 7, 250<<10)
	if len(c.sizes) != 4 || c.sizes[0] != 2 {
		t.Errorf("sent in requests of %v, want at most 2 results of 250 KiB in each", c.sizes)
	}
}

func TestOneBadCompletionIsFoundInItsBatch(t *testing.T) {
	c := &counting{bad: "b"}
	for i, err := range pile(t, c, 4, 10) {
		if (err != nil) != (i == 1) {
			t.Errorf("completion %d was answered %v", i, err)
		}
	}
}
