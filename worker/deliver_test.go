package worker_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"interlock.sh/fault"
	"interlock.sh/tasks"
	"interlock.sh/worker"
)

func TestOneBadCompletionDoesNotSpoilItsBatch(t *testing.T) {
	p := newFake(t)
	hold := make(chan struct{})
	p.onComplete = func(_ context.Context, req tasks.CompleteRequest) (tasks.CompleteResponse, error) {
		<-hold
		for _, c := range req.Completions {
			if c.TaskID == "tsk_2" {
				return tasks.CompleteResponse{}, fault.New(fault.Invalid, "no")
			}
		}
		return completed(req), nil
	}
	w, end := p.run(worker.Options{MaxConcurrent: 3}, tasks.Pure, nothing)
	p.add("default", 3)
	p.until("all claimed", func() bool { return len(p.queue) == 0 })
	close(hold)
	p.until("the end of all", func() bool { s := w.Stats(); return s.Held == 0 && s.Succeeded == 2 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
}

func TestEndIsReportedUntilItIsAnswered(t *testing.T) {
	for name, code := range map[string]fault.Code{"away": fault.Unavailable, "outcome of the commit unknown": fault.Unknown, "internal": fault.Internal} {
		t.Run(name, func(t *testing.T) {
			p := newFake(t)
			var tries atomic.Int32
			p.onComplete = func(_ context.Context, req tasks.CompleteRequest) (tasks.CompleteResponse, error) {
				if tries.Add(1) < 4 {
					return tasks.CompleteResponse{}, fault.New(code, "again")
				}
				return completed(req), nil
			}
			w, end := p.run(worker.Options{}, tasks.Pure, nothing)
			p.add("default", 1)
			p.pass(200*time.Millisecond, "the fourth try", func() bool { return w.Stats().Succeeded == 1 })
			if err := end(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// spooled runs a worker whose reports all fail, and returns its spool with one record of each kind.
func spooled(t *testing.T) string {
	t.Helper()
	p := newFake(t)
	dir := filepath.Join(t.TempDir(), "spool")
	p.onComplete = func(context.Context, tasks.CompleteRequest) (tasks.CompleteResponse, error) {
		return tasks.CompleteResponse{}, away
	}
	p.onFail = func(tasks.FailReport) (tasks.Outcome, error) { return tasks.Outcome{}, away }
	p.onDelta = func(context.Context, tasks.DeltaReport) (tasks.DeltaResponse, error) {
		return tasks.DeltaResponse{}, away
	}
	_, end := p.run(worker.Options{Spool: dir, MaxConcurrent: 2}, tasks.Pure, func(_ context.Context, task *worker.Task) (any, error) {
		if task.ID == "tsk_2" {
			return nil, worker.Fail("NO_PAPER", "empty")
		}
		_, err := task.WriteString("streamed")
		return "done", err
	})
	p.add("default", 2)
	p.until("both records", func() bool {
		st, err := worker.CheckSpool(dir)
		return err == nil && st.Pending == 2 && len(p.fails) > 0
	})
	if err := end(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestSpoolIsReplayedWithItsStream(t *testing.T) {
	dir := spooled(t)
	for _, f := range mustList(t, dir) {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", f.Name(), info.Mode(), err)
		}
	}
	p := newFake(t)
	var tries atomic.Int32
	p.onComplete = func(_ context.Context, req tasks.CompleteRequest) (tasks.CompleteResponse, error) {
		if tries.Add(1) == 1 {
			return tasks.CompleteResponse{}, away
		}
		out := completed(req)
		if held := len(p.streams["att_1"]); int64(held) < req.Completions[0].StreamBytes {
			out.Outcomes[0].Error = &tasks.Answer{Code: string(fault.StreamGap), Details: map[string]any{"durableTo": float64(held)}}
		}
		return out, nil
	}
	_, end := p.run(worker.Options{Spool: dir}, tasks.Pure, nothing)
	p.pass(100*time.Millisecond, "an empty spool", func() bool { return len(mustList(t, dir)) == 0 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
	last := p.completions[len(p.completions)-1].Completions[0]
	if string(last.Result) != `"done"` || last.StreamBytes != 8 || p.streams["att_1"] != "streamed" {
		t.Errorf("replayed %+v, stream %q", last, p.streams["att_1"])
	}
	if len(p.fails) != 1 || p.fails[0].Code != "NO_PAPER" {
		t.Errorf("replayed failures %+v", p.fails)
	}
}

func TestDefinitiveRefusalDropsTheRecord(t *testing.T) {
	for name, code := range map[string]fault.Code{"stale": fault.StaleAttempt, "not ours": fault.ScopeDenied, "invalid": fault.Invalid} {
		t.Run(name, func(t *testing.T) {
			dir := spooled(t)
			p := newFake(t)
			p.onComplete = func(_ context.Context, req tasks.CompleteRequest) (tasks.CompleteResponse, error) {
				out := completed(req)
				out.Outcomes[0].Error = &tasks.Answer{Code: string(code), Message: "no"}
				return out, nil
			}
			p.onFail = func(tasks.FailReport) (tasks.Outcome, error) { return tasks.Outcome{}, fault.New(code, "no") }
			_, end := p.run(worker.Options{Spool: dir}, tasks.Pure, nothing)
			p.pass(100*time.Millisecond, "an empty spool", func() bool { return len(mustList(t, dir)) == 0 })
			if err := end(); err != nil {
				t.Fatal(err)
			}
			if len(p.completions) != 1 || len(p.fails) != 1 {
				t.Errorf("%d and %d reports after a definitive answer", len(p.completions), len(p.fails))
			}
		})
	}
}

func TestRevokedKeyKeepsTheRecord(t *testing.T) {
	dir := spooled(t)
	p := newFake(t)
	p.onComplete = func(context.Context, tasks.CompleteRequest) (tasks.CompleteResponse, error) {
		return tasks.CompleteResponse{}, fault.New(fault.Revoked, "revoked")
	}
	_, end := p.run(worker.Options{Spool: dir}, tasks.Pure, nothing)
	p.pass(time.Second, "the end of Run", func() bool { return p.over })
	if err := end(); fault.CodeOf(err) != fault.Revoked {
		t.Errorf("Run returned %v", err)
	}
	if st, err := worker.CheckSpool(dir); err != nil || st.Pending == 0 {
		t.Errorf("the spool holds %+v, %v", st, err)
	}
}

func TestUnreadableRecordIsSetAside(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"torn.json": `{"version":1,"ki`, "newer.json": `{"version":9}`, "empty.json": `{"version":1,"kind":"complete"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := newFake(t)
	_, end := p.run(worker.Options{Spool: dir}, tasks.Pure, nothing)
	p.until("a claim", func() bool { return len(p.claims) > 0 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if st, err := worker.CheckSpool(dir); err != nil || st != (worker.SpoolStatus{SetAside: 3}) {
		t.Errorf("the spool holds %+v, %v", st, err)
	}
	for _, f := range mustList(t, dir) {
		if !strings.HasSuffix(f.Name(), ".json.unreadable") {
			t.Errorf("%s is left", f.Name())
		}
	}
}

func TestSpoolThatIsNoFolderIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := worker.New(newFake(t), worker.Options{WorkerID: "w", Spool: file}); fault.CodeOf(err) != fault.Invalid {
		t.Errorf("New returned %v", err)
	}
	if _, err := worker.CheckSpool(file); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("CheckSpool returned %v", err)
	}
}

func mustList(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return files
}
