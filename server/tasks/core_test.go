package servertasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"interlock.sh/fault"
	"interlock.sh/server/store"
	servertasks "interlock.sh/server/tasks"
	"interlock.sh/tasks"
)

func TestLifeOfATask(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	a := p.one(tasks.Pure, tasks.SubmitRequest{Input: json.RawMessage(`{ "name": "Ada" }`), Correlations: map[string]string{"order": "7"}})
	if string(a.Input) != `{"name":"Ada"}` || a.Number != 1 || a.Correlations["order"] != "7" || a.LeaseMs != 30000 {
		t.Fatalf("attempt %+v", a)
	}
	p.wantState(a.TaskID, tasks.Leased)
	if r := p.renew(a); r.Error != nil || r.LeaseMs != 30000 || r.Cancel {
		t.Fatalf("renewal %+v", r)
	}
	p.wantState(a.TaskID, tasks.Running)
	if err := p.core.Progress(context.Background(), caller, tasks.ProgressReport{Ref: a.Ref, Progress: tasks.Progress{Percent: 50, Message: "half"}}); err != nil {
		t.Fatal(err)
	}
	if o := p.complete(a, `{"message": "hello <Ada>"}`, 0); o.State != tasks.Succeeded || o.Error != nil {
		t.Fatalf("outcome %+v", o)
	}
	v := p.get(a.TaskID)
	if string(v.Result) != `{"message":"hello <Ada>"}` || v.EffectKey != a.EffectKey || v.Progress.Percent != 50 || v.EndedAt == nil || v.Attempts != 1 {
		t.Fatalf("view %+v", v)
	}
	want := []tasks.EntryKind{tasks.EntrySubmitted, tasks.EntryLeased, tasks.EntryRunning, tasks.EntryProgress, tasks.EntrySucceeded}
	if got := p.kinds(a.TaskID); !slices.Equal(got, want) {
		t.Fatalf("journal %v, want %v", got, want)
	}
}

// The refusal must leave the newer attempt as it is, and the newer attempt must be able to end the task.
func TestStaleAttemptNeverOverwrites(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	old := p.one(tasks.Idempotent, tasks.SubmitRequest{})
	p.advance(31 * time.Second)
	p.wantState(old.TaskID, tasks.Queued)
	wantStale(t, p.complete(old, `"old, before the next claim"`, 0).Error)
	now := p.claim("w1", 1)[0]
	if now.Fence <= old.Fence || now.Number != 2 || now.EffectKey != old.EffectKey {
		t.Fatalf("second attempt %+v after %+v", now, old)
	}
	wantStale(t, p.complete(old, `"old"`, 0).Error)
	wantStale(t, p.renew(old).Error)
	mixed := old
	mixed.AttemptID, mixed.Fence = now.AttemptID, now.Fence
	wantStale(t, p.complete(mixed, `"right attempt, wrong token"`, 0).Error)
	_, err := p.core.Fail(context.Background(), caller, tasks.FailReport{Ref: old.Ref})
	wantCode(t, err, fault.StaleAttempt)
	_, err = p.core.Unknown(context.Background(), caller, tasks.UnknownReport{Ref: old.Ref})
	wantCode(t, err, fault.StaleAttempt)
	_, err = p.core.Delta(context.Background(), caller, tasks.DeltaReport{Ref: old.Ref, Text: "x"})
	wantCode(t, err, fault.StaleAttempt)
	if o := p.complete(now, `"new"`, 0); o.State != tasks.Succeeded {
		t.Fatalf("outcome %+v", o)
	}
	if v := p.get(now.TaskID); string(v.Result) != `"new"` {
		t.Fatalf("result %s", v.Result)
	}
}

func TestARepeatOfTheReportThatEndedTheTaskGetsItsAnswer(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	a := p.one(tasks.Pure, tasks.SubmitRequest{})
	for range 2 {
		if o := p.complete(a, `1`, 0); o.State != tasks.Succeeded || o.Error != nil {
			t.Fatalf("outcome %+v", o)
		}
	}
	_, err := p.core.Fail(context.Background(), caller, tasks.FailReport{Ref: a.Ref}) // another kind of report
	wantCode(t, err, fault.StaleAttempt)
	lost := p.one(tasks.NonIdempotent, tasks.SubmitRequest{})
	p.advance(time.Minute)
	v := p.wantState(lost.TaskID, tasks.OutcomeUnknown)
	if v.Error.Message != "The worker may have finished, but Interlock cannot prove the outcome." {
		t.Fatalf("message %q", v.Error.Message)
	}
	wantStale(t, p.complete(lost, `1`, 0).Error)
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	req := tasks.SubmitRequest{Type: "demo/hello", SchemaVersion: 1, Input: json.RawMessage(`{"a":1,"b":2}`), IdempotencyKey: "k"}
	first := p.submit(req)
	req.Input = json.RawMessage(`{ "b": 2, "a": 1 }`)
	if again := p.submit(req); again.ID != first.ID {
		t.Fatal("the same request with its members in another order made another task")
	}
	for name, change := range map[string]func(*tasks.SubmitRequest){
		"input":    func(r *tasks.SubmitRequest) { r.Input = json.RawMessage(`{"a":1}`) },
		"priority": func(r *tasks.SubmitRequest) { r.Priority = 1 },
		"pool":     func(r *tasks.SubmitRequest) { r.Pool = "gpu" },
		"version":  func(r *tasks.SubmitRequest) { r.SchemaVersion = 2 },
	} {
		other := req
		change(&other)
		_, err := p.core.Submit(context.Background(), project, other)
		if fault.CodeOf(err) != fault.IdempotencyConflict {
			t.Errorf("%s changed: %v, want IDEMPOTENCY_CONFLICT", name, err)
		}
	}
	elsewhere, err := p.core.Submit(context.Background(), "other", req)
	if err != nil || elsewhere.ID == first.ID {
		t.Fatalf("a key counts within one project: %v", err)
	}
}

func TestWhatFollowsAFailure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		safety    tasks.EffectSafety
		retryable bool
		returned  bool
		want      tasks.State
		attempts  int
	}{
		"retryable and pure":           {tasks.Pure, true, false, tasks.Queued, 1},
		"retryable, not idempotent":    {tasks.NonIdempotent, true, false, tasks.Failed, 1},
		"terminal":                     {tasks.Idempotent, false, false, tasks.Failed, 1},
		"returned counts nothing":      {tasks.Pure, false, true, tasks.Queued, 0},
		"returned, but may have acted": {tasks.NonIdempotent, false, true, tasks.OutcomeUnknown, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t)
			a := p.one(c.safety, tasks.SubmitRequest{})
			if got := p.fail(a, tasks.Failure{Code: "X", Message: "x", Retryable: c.retryable}, c.returned); got != c.want {
				t.Fatalf("state %s, want %s", got, c.want)
			}
			if v := p.get(a.TaskID); v.Attempts != c.attempts {
				t.Fatalf("%d attempts count, want %d", v.Attempts, c.attempts)
			}
		})
	}
}

func TestAttemptsRunOut(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	a := p.one(tasks.Pure, tasks.SubmitRequest{MaxAttempts: 2})
	p.fail(a, tasks.Failure{Code: "X", Retryable: true}, false)
	p.advance(0)
	if got := p.claim("w1", 1); len(got) != 1 {
		t.Fatal("the second attempt was not there")
	}
	p.advance(time.Minute)
	if v := p.wantState(a.TaskID, tasks.Failed); v.Error.Code != servertasks.CodeAttemptLost || v.Attempts != 2 {
		t.Fatalf("view %+v", v)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	ctx := context.Background()
	cancel := func(id string) tasks.View {
		t.Helper()
		v, err := p.core.Cancel(ctx, project, id, "enough")
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := cancel(p.submit(tasks.SubmitRequest{}).ID); v.State != tasks.Cancelled || v.CancelReason != "enough" {
		t.Fatalf("queued: %+v", v)
	}
	if v := cancel(p.submit(tasks.SubmitRequest{DelayMs: 1000}).ID); v.State != tasks.Cancelled {
		t.Fatalf("scheduled: %+v", v)
	}
	a := p.one(tasks.Pure, tasks.SubmitRequest{})
	hints, done := p.core.SubscribeWorker(project, "w1")
	defer done()
	if v := cancel(a.TaskID); v.State != tasks.Leased || !v.CancelRequested {
		t.Fatalf("held: %+v", v)
	}
	<-hints
	cancel(a.TaskID)
	if r := p.renew(a); !r.Cancel || r.CancelReason != "enough" {
		t.Fatalf("renewal %+v", r)
	}
	if got := p.fail(a, tasks.Failure{Code: tasks.CodeCancelled, Retryable: true}, false); got != tasks.Cancelled {
		t.Fatalf("acknowledged: %s", got)
	}
	want := []tasks.EntryKind{tasks.EntrySubmitted, tasks.EntryLeased, tasks.EntryCancelRequested, tasks.EntryRunning, tasks.EntryAttemptFailed, tasks.EntryCancelled}
	if got := p.kinds(a.TaskID); !slices.Equal(got, want) {
		t.Fatalf("journal %v", got)
	}
	if v := cancel(a.TaskID); v.State != tasks.Cancelled {
		t.Fatalf("repeated: %+v", v)
	}
	_, err := p.core.Cancel(ctx, "other", a.TaskID, "")
	wantCode(t, err, fault.NotFound)
}

func TestDelaysAndDeadlines(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	delayed := p.submit(tasks.SubmitRequest{DelayMs: 5000})
	waiting := p.submit(tasks.SubmitRequest{ExpiresInMs: 7000, Pool: "nobody"})
	late := p.submit(tasks.SubmitRequest{DelayMs: 9000, ExpiresInMs: 6000})
	a := p.one(tasks.Pure, tasks.SubmitRequest{ExpiresInMs: 8000, Priority: 9})
	if a.DeadlineMs != 8000 {
		t.Fatalf("deadline %d", a.DeadlineMs)
	}
	p.advance(5 * time.Second)
	p.wantState(delayed.ID, tasks.Queued)
	p.wantState(waiting.ID, tasks.Queued)
	p.advance(3 * time.Second)
	p.wantState(waiting.ID, tasks.Expired)
	p.wantState(late.ID, tasks.Expired)
	if v := p.wantState(a.TaskID, tasks.Leased); !v.CancelRequested {
		t.Fatal("a passed deadline did not ask the worker to stop")
	}
	if got := p.fail(a, tasks.Failure{Code: tasks.CodeCancelled}, false); got != tasks.Expired {
		t.Fatalf("state %s, want expired", got)
	}
	if v := p.get(a.TaskID); v.Error == nil || v.Error.Code != servertasks.CodeExpired {
		t.Fatalf("error %+v", v.Error)
	}
}

// A restart gives every live lease its full length before any is ended.
func TestLeasesSurviveARestart(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	a := p.one(tasks.NonIdempotent, tasks.SubmitRequest{})
	p.clock.Advance(time.Hour) // the control plane was away
	p.crash()
	p.wantState(a.TaskID, tasks.Leased)
	p.advance(29 * time.Second)
	if r := p.renew(a); r.Error != nil {
		t.Fatalf("renewal after the restart: %+v", r)
	}
	p.advance(31 * time.Second)
	p.wantState(a.TaskID, tasks.OutcomeUnknown)
}

func TestResultTooLargeFailsForGood(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	a := p.one(tasks.Pure, tasks.SubmitRequest{})
	big := `"` + strings.Repeat("x", tasks.MaxInline) + `"`
	if o := p.complete(a, big, 0); o.State != tasks.Failed {
		t.Fatalf("outcome %+v", o)
	}
	if v := p.get(a.TaskID); v.Error.Code != string(fault.ResultTooLarge) || v.Result != nil {
		t.Fatalf("error %+v", v.Error)
	}
}

func TestABatchAnswersEachItem(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.register("w1", 3, tasks.Pure)
	for range 3 {
		p.submit(tasks.SubmitRequest{})
	}
	got := p.claim("w1", 3)
	bad := got[1].Ref
	bad.LeaseToken = "guessed"
	r, err := p.core.Complete(context.Background(), caller, tasks.CompleteRequest{Completions: []tasks.Completion{
		{Ref: got[0].Ref}, {Ref: bad}, {Ref: got[2].Ref, StreamBytes: 5},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if r.Outcomes[0].State != tasks.Succeeded || r.Outcomes[2].Error.Code != string(fault.StreamGap) {
		t.Fatalf("outcomes %+v", r.Outcomes)
	}
	wantStale(t, r.Outcomes[1].Error)
	p.wantState(got[1].TaskID, tasks.Leased)
	p.wantState(got[2].TaskID, tasks.Leased)
}

func TestTheEndHookIsInTheSameCommit(t *testing.T) {
	t.Parallel()
	refuse := errors.New("no")
	var fails bool
	var ended []servertasks.AttemptInfo
	p := newPlane(t, func(tx *store.Tx, v tasks.View, a servertasks.AttemptInfo) error {
		if fails {
			return refuse
		}
		ended = append(ended, a)
		_, err := tx.Exec("INSERT INTO meta (name, value) VALUES ($1, 1)", "ended "+v.ID)
		return err
	})
	a := p.one(tasks.Pure, tasks.SubmitRequest{})
	fails = true
	if _, err := p.core.Complete(context.Background(), caller, tasks.CompleteRequest{Completions: []tasks.Completion{{Ref: a.Ref}}}); !errors.Is(err, refuse) {
		t.Fatalf("error %v", err)
	}
	p.wantState(a.TaskID, tasks.Leased)
	fails = false
	p.complete(a, "", 0)
	if len(ended) != 1 || ended[0].ID != a.AttemptID || ended[0].WorkerID != "w1" || ended[0].EndedAt.IsZero() {
		t.Fatalf("hook saw %+v", ended)
	}
	var n int
	if err := p.db.QueryRow(context.Background(), "SELECT COUNT(*) FROM meta WHERE name = $1", "ended "+a.TaskID).Scan(&n); err != nil || n != 1 {
		t.Fatalf("%d marks, %v", n, err)
	}
}

func TestSubmitInACallersTransaction(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	undone := errors.New("undone")
	var a servertasks.Admission
	in := func(end error) error {
		return p.db.Write(context.Background(), store.LaneAdmit, func(tx *store.Tx) (err error) {
			if a, err = p.core.SubmitTx(tx, project, tasks.SubmitRequest{Type: "demo/hello", SchemaVersion: 1, IdempotencyKey: "k"}, 0); err != nil {
				return err
			}
			return end
		})
	}
	if err := in(undone); !errors.Is(err, undone) {
		t.Fatal(err)
	}
	if _, err := p.core.Get(context.Background(), project, a.Task.ID); fault.CodeOf(err) != fault.NotFound {
		t.Fatalf("an undone submit left a task: %v", err)
	}
	if err := in(nil); err != nil || !a.Created {
		t.Fatalf("created %v, %v", a.Created, err)
	}
	p.core.Announce(a)
	if err := in(nil); err != nil || a.Created {
		t.Fatalf("created again %v, %v", a.Created, err)
	}
}

func TestListPages(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	var ids []string
	for range 5 {
		ids = append(ids, p.submit(tasks.SubmitRequest{Input: json.RawMessage(`1`)}).ID)
	}
	slices.Reverse(ids)
	var got []string
	for f := (servertasks.Filter{Limit: 2, State: tasks.Queued, Type: "demo/hello"}); ; {
		page, err := p.core.List(context.Background(), project, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range page.Tasks {
			got = append(got, v.ID)
		}
		if f.Before = page.Next; f.Before == "" {
			break
		}
	}
	if !slices.Equal(got, ids) {
		t.Fatalf("pages %v, want %v", got, ids)
	}
	_, err := p.core.List(context.Background(), project, servertasks.Filter{Before: "zzz"})
	wantCode(t, err, fault.Invalid)
}

func TestAnswersStayOfASizeThatClientsTake(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.register("w1", 100, tasks.Pure)
	big := json.RawMessage(`"` + strings.Repeat("x", tasks.MaxInline-2) + `"`)
	for range 20 {
		p.submit(tasks.SubmitRequest{Input: big})
	}
	if got := len(p.claim("w1", 100)); got != 16 {
		t.Fatalf("one claim took %d inputs of 256 KiB, want 16", got)
	}
	rest := p.claim("w1", 100)
	if len(rest) != 4 {
		t.Fatalf("the next claim took %d", len(rest))
	}
	a := rest[0]
	for i := range 100 {
		if _, err := p.delta(a, i*tasks.MaxDelta, strings.Repeat("y", tasks.MaxDelta)); err != nil {
			t.Fatal(err)
		}
	}
	p.complete(a, `1`, 100*tasks.MaxDelta)
	streamed, pages := 0, 0
	for after := int64(0); ; pages++ {
		j, err := p.core.Journal(context.Background(), project, a.TaskID, after, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(j.Entries) == 0 {
			break
		}
		for _, e := range j.Entries {
			var d tasks.DeltaData
			if e.Kind == tasks.EntryDelta {
				if err := json.Unmarshal(e.Data, &d); err != nil {
					t.Fatal(err)
				}
			}
			streamed += len(d.Text)
		}
		after = j.Cursor
	}
	if streamed != 100*tasks.MaxDelta || pages < 2 {
		t.Fatalf("%d bytes in %d pages", streamed, pages)
	}
}

func TestLogsAreBounded(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	a := p.one(tasks.Pure, tasks.SubmitRequest{})
	line := tasks.LogLine{Line: strings.Repeat("é", tasks.MaxLogLine)}
	report := tasks.LogReport{Ref: a.Ref, Lines: slices.Repeat([]tasks.LogLine{line}, 50)}
	for range 5 {
		if err := p.core.Log(context.Background(), caller, report); err != nil {
			t.Fatal(err)
		}
	}
	j, err := p.core.Journal(context.Background(), project, a.TaskID, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	logs, size := 0, 0
	for _, e := range j.Entries {
		if e.Kind == tasks.EntryLog {
			logs++
			size += len(e.Data)
		}
	}
	if logs != 3 || size > 2<<20 { // two reports of 400 KiB, then one line that says that the limit is reached
		t.Fatalf("%d log entries, %d bytes", logs, size)
	}
}
