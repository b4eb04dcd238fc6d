package servertasks_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"interlock.sh/fault"
	"interlock.sh/server/store"
	servertasks "interlock.sh/server/tasks"
	"interlock.sh/tasks"
)

// model is what the test knows by itself: who holds what, and which attempts are over.
type model struct {
	p     *plane
	ids   []string
	held  []tasks.Attempt // the newest attempt of each task that was claimed and did not report an end
	over  []tasks.Attempt // attempts that reported their end, or that another one followed
	ended map[string]int  // calls of the end hook by task
}

// Two workers, any order of operations, leases that run out, workers that forget, a server that crashes:
// the journal stays a walk through the transition table, and nobody but the newest attempt ends a task.
func TestStateMachineProperty(t *testing.T) {
	t.Parallel()
	ended := map[string]int{}
	p := newPlane(t, func(_ *store.Tx, v tasks.View, _ servertasks.AttemptInfo) error {
		ended[v.ID]++
		return nil
	})
	rapid.Check(t, func(rt *rapid.T) {
		p.round(rt)
		m := &model{p: p, ended: ended}
		safety := rapid.SampledFrom([]tasks.EffectSafety{tasks.Pure, tasks.Idempotent, tasks.NonIdempotent}).Draw(rt, "safety")
		p.register("w1", 2, safety)
		p.register("w2", 1, safety)
		rt.Repeat(map[string]func(*rapid.T){
			"submit": m.submit, "claim": m.claim, "renew": m.renew, "end": m.end, "stale": m.stale,
			"cancel": m.cancel, "time": m.time,
			"forget": func(rt *rapid.T) { // a worker that crashed
				if len(m.held) > 0 {
					i := rapid.IntRange(0, len(m.held)-1).Draw(rt, "which")
					m.held = slices.Delete(m.held, i, i+1)
				}
			},
			"crash": func(rt *rapid.T) {
				if crashes(rt) {
					p.crash()
				}
			},
			"": m.check,
		})
		for _, id := range m.ids { // frees the workers for the next round
			_, _ = p.core.Cancel(context.Background(), project, id, "")
		}
		p.advance(time.Minute)
	})
}

func (m *model) submit(rt *rapid.T) {
	m.ids = append(m.ids, m.p.submit(tasks.SubmitRequest{
		DelayMs:     int64(rapid.SampledFrom([]int{0, 0, 5000}).Draw(rt, "delay")),
		ExpiresInMs: int64(rapid.SampledFrom([]int{0, 0, 20000}).Draw(rt, "deadline")),
		MaxAttempts: rapid.IntRange(1, 3).Draw(rt, "attempts"),
		Priority:    rapid.IntRange(0, 9).Draw(rt, "priority"),
	}).ID)
}

func (m *model) claim(rt *rapid.T) {
	for _, a := range m.p.claim(rapid.SampledFrom([]string{"w1", "w2"}).Draw(rt, "worker"), rapid.IntRange(1, 3).Draw(rt, "max")) {
		if i := slices.IndexFunc(m.held, func(h tasks.Attempt) bool { return h.TaskID == a.TaskID }); i >= 0 {
			m.over = append(m.over, m.held[i])
			m.held = slices.Delete(m.held, i, i+1)
		}
		m.held = append(m.held, a)
	}
}

func (m *model) pick(rt *rapid.T) (tasks.Attempt, bool) {
	if len(m.held) == 0 {
		return tasks.Attempt{}, false
	}
	return rapid.SampledFrom(m.held).Draw(rt, "attempt"), true
}

// current reports whether a still holds its task.
func (m *model) current(a tasks.Attempt) bool {
	v := m.p.get(a.TaskID)
	return v.State.Held() && v.AttemptID == a.AttemptID
}

func (m *model) renew(rt *rapid.T) {
	if a, ok := m.pick(rt); ok {
		if was, got := m.current(a), m.p.renew(a); was != (got.Error == nil) {
			rt.Fatalf("renewal of a current attempt (%v): %+v", was, got)
		}
	}
}

func (m *model) end(rt *rapid.T) {
	a, ok := m.pick(rt)
	if !ok {
		return
	}
	was := m.current(a)
	var err error
	switch rapid.SampledFrom([]string{"complete", "fail", "retry", "return", "unknown"}).Draw(rt, "how") {
	case "complete":
		if o := m.p.complete(a, `1`, 0); o.Error != nil {
			err = fault.Code(o.Error.Code)
		}
	case "fail":
		_, err = m.p.core.Fail(context.Background(), caller, tasks.FailReport{Ref: a.Ref, Failure: tasks.Failure{Code: "X"}})
	case "retry":
		_, err = m.p.core.Fail(context.Background(), caller, tasks.FailReport{Ref: a.Ref, Failure: tasks.Failure{Code: "X", Retryable: true}})
	case "return":
		_, err = m.p.core.Fail(context.Background(), caller, tasks.FailReport{Ref: a.Ref, Returned: true})
	case "unknown":
		_, err = m.p.core.Unknown(context.Background(), caller, tasks.UnknownReport{Ref: a.Ref})
	}
	if was != (err == nil) {
		rt.Fatalf("the end of a current attempt (%v): %v", was, err)
	}
	m.held = slices.DeleteFunc(m.held, func(h tasks.Attempt) bool { return h.AttemptID == a.AttemptID })
	m.over = append(m.over, a)
}

// stale lets an attempt that is over report once more: whatever it is told, nothing changes.
func (m *model) stale(rt *rapid.T) {
	if len(m.over) == 0 {
		return
	}
	a := rapid.SampledFrom(m.over).Draw(rt, "over")
	before := m.p.get(a.TaskID)
	o := m.p.complete(a, `"late"`, 0)
	if o.Error == nil && o.State != before.State {
		rt.Fatalf("a late completion was told %+v", o)
	}
	if r := m.p.renew(a); r.Error == nil {
		rt.Fatal("an attempt that is over was renewed")
	}
	if after := m.p.get(a.TaskID); after.Cursor != before.Cursor || string(after.Result) != string(before.Result) {
		rt.Fatalf("a late report changed the task from %+v to %+v", before, after)
	}
}

func (m *model) cancel(rt *rapid.T) {
	if len(m.ids) > 0 {
		id := rapid.SampledFrom(m.ids).Draw(rt, "task")
		if _, err := m.p.core.Cancel(context.Background(), project, id, "why"); err != nil {
			rt.Fatal(err)
		}
	}
}

func (m *model) time(rt *rapid.T) {
	m.p.advance(time.Duration(rapid.SampledFrom([]int{1, 6, 16, 31}).Draw(rt, "seconds")) * time.Second)
}

func (m *model) check(rt *rapid.T) {
	for _, id := range m.ids {
		v := m.p.get(id)
		j, err := m.p.core.Journal(context.Background(), project, id, 0, 0)
		if err != nil {
			rt.Fatal(err)
		}
		if v.Attempts > v.MaxAttempts || v.Attempts < 0 {
			rt.Fatalf("%d of %d attempts count", v.Attempts, v.MaxAttempts)
		}
		if got := walk(rt, j.Entries); got != v.State {
			rt.Fatalf("the journal leads to %s, the task is %s", got, v.State)
		}
		if n := int64(len(j.Entries)); n != v.Cursor {
			rt.Fatalf("%d entries, cursor %d", n, v.Cursor)
		}
		if want := map[bool]int{true: 1}[v.State.Terminal()]; m.ended[id] != want {
			rt.Fatalf("a task that is %s ran its end hook %d times", v.State, m.ended[id])
		}
	}
}

// walk replays a journal through the transition table and checks numbers and fences on the way.
func walk(rt *rapid.T, entries []tasks.Entry) tasks.State {
	events := map[tasks.EntryKind][]tasks.Event{
		tasks.EntryQueued: {tasks.EventDue, tasks.EventRequeue}, tasks.EntryLeased: {tasks.EventClaim},
		tasks.EntryRunning: {tasks.EventStart}, tasks.EntrySucceeded: {tasks.EventSucceed}, tasks.EntryFailed: {tasks.EventFail},
		tasks.EntryCancelled: {tasks.EventCancel}, tasks.EntryExpired: {tasks.EventExpire}, tasks.EntryUnknown: {tasks.EventUnknown},
	}
	var state tasks.State
	fence := int64(0)
	for i, e := range entries {
		if e.Seq != int64(i+1) {
			rt.Fatalf("entry %d has number %d", i+1, e.Seq)
		}
		var data struct {
			DelayMs int64 `json:"delayMs"`
			Fence   int64 `json:"fence"`
		}
		if len(e.Data) > 0 {
			if err := json.Unmarshal(e.Data, &data); err != nil {
				rt.Fatal(err)
			}
		}
		possible := events[e.Kind]
		switch {
		case e.Kind == tasks.EntrySubmitted && data.DelayMs > 0:
			possible = []tasks.Event{tasks.EventDelay}
		case e.Kind == tasks.EntrySubmitted:
			possible = []tasks.Event{tasks.EventSubmit}
		case e.Kind == tasks.EntryLeased && data.Fence <= fence:
			rt.Fatalf("fence %d after %d", data.Fence, fence)
		}
		fence = max(fence, data.Fence)
		if len(possible) == 0 {
			continue // no move: progress, logs, requests, how an attempt ended
		}
		moved := false
		for _, event := range possible {
			if to, ok := tasks.Next(state, event); ok {
				state, moved = to, true
				break
			}
		}
		if !moved {
			rt.Fatalf("entry %d, %s, is no move from %s", e.Seq, e.Kind, state)
		}
	}
	return state
}
