package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"interlock.sh/fault"
	"interlock.sh/tasks"
	"interlock.sh/worker"
)

// writes is a handler that writes pieces and succeeds.
func writes(pieces ...string) worker.HandlerFunc {
	return func(_ context.Context, task *worker.Task) (any, error) {
		for _, s := range pieces {
			if _, err := task.WriteString(s); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
}

func TestFirstBytesLeaveAtOnceAndTheRestIsCoalesced(t *testing.T) {
	p := newFake(t)
	answer, arrived := make(chan struct{}), make(chan struct{}, 10)
	p.onDelta = func(_ context.Context, req tasks.DeltaReport) (tasks.DeltaResponse, error) {
		arrived <- struct{}{}
		if req.Offset == 0 {
			<-answer
		}
		return p.hold(req)
	}
	_, end := p.run(worker.Options{}, tasks.Pure, func(_ context.Context, task *worker.Task) (any, error) {
		_, err := task.WriteString("first")
		<-arrived // without another write, without time passing
		for range 10 {
			_, err2 := task.WriteString(" more")
			err = errors.Join(err, err2)
		}
		close(answer)
		return nil, err
	})
	p.add("default", 1)
	p.until("the end", func() bool { return len(p.completedIDs()) == 1 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
	want := "first" + strings.Repeat(" more", 10)
	if len(p.deltas) != 2 || p.deltas[0].Text != "first" || p.streams["att_1"] != want {
		t.Errorf("%d reports, stream %q", len(p.deltas), p.streams["att_1"])
	}
	if n := p.completions[0].Completions[0].StreamBytes; n != int64(len(want)) {
		t.Errorf("the completion says %d bytes, the stream has %d", n, len(want))
	}
}

func TestReportsAreCutBetweenCharactersAndAfterLines(t *testing.T) {
	p := newFake(t)
	half := strings.Repeat("ä", 50_000)
	lines := strings.Repeat("a line of text\n", 10_000)
	text := half + lines + "\xff" + "\xf0\x9f" // ends inside a character
	_, end := p.run(worker.Options{}, tasks.Pure, writes(text[:33_333], text[33_333:99_999], text[99_999:]))
	p.add("default", 1)
	p.until("the end", func() bool { return len(p.completedIDs()) == 1 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if got := p.streams["att_1"]; got != half+lines+"\uFFFD\uFFFD" {
		t.Errorf("the stream has %d bytes, want %d", len(got), len(text))
	}
	for _, d := range p.deltas {
		if !utf8.ValidString(d.Text) || len(d.Text) > tasks.MaxDelta {
			t.Errorf("a report of %d bytes is too long or no UTF-8", len(d.Text))
		}
	}
}

func TestGapIsFilledFromWhatIsDurable(t *testing.T) {
	p := newFake(t)
	var forgot atomic.Bool
	p.onDelta = func(_ context.Context, req tasks.DeltaReport) (tasks.DeltaResponse, error) {
		if req.Offset >= 8 && forgot.CompareAndSwap(false, true) { // a restart that lost what was in memory only
			p.note(func() { p.streams[req.AttemptID] = p.streams[req.AttemptID][:4] })
		}
		out, err := p.hold(req)
		out.DurableTo = min(out.DurableTo, 4)
		return out, err
	}
	sent := make(chan struct{}, 1)
	_, end := p.run(worker.Options{}, tasks.Pure, func(_ context.Context, task *worker.Task) (any, error) {
		_, err := task.WriteString("01234567")
		<-sent
		_, err2 := task.WriteString("89")
		return nil, errors.Join(err, err2)
	})
	p.add("default", 1)
	p.until("the first report", func() bool { return len(p.deltas) == 1 })
	sent <- struct{}{}
	p.until("the end", func() bool { return len(p.completedIDs()) == 1 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if got := p.streams["att_1"]; got != "0123456789" {
		t.Errorf("the stream is %q", got)
	}
}

func TestGapAtTheEndIsFilledBeforeItIsTaken(t *testing.T) {
	for name, lost := range map[string]bool{"resent": false, "bytes are gone": true} {
		t.Run(name, func(t *testing.T) {
			p := newFake(t)
			p.onDelta = func(_ context.Context, req tasks.DeltaReport) (tasks.DeltaResponse, error) {
				out, err := p.hold(req)
				if !lost {
					out.DurableTo = 0
				}
				return out, err
			}
			var gap atomic.Bool
			p.onComplete = func(_ context.Context, req tasks.CompleteRequest) (tasks.CompleteResponse, error) {
				out := completed(req)
				if gap.CompareAndSwap(false, true) {
					p.note(func() { p.streams["att_1"] = "" })
				}
				if held := len(p.streams["att_1"]); req.Completions[0].StreamBytes > int64(held) {
					out.Outcomes[0].Error = &tasks.Answer{Code: string(fault.StreamGap), Message: "gap", Details: map[string]any{"durableTo": float64(held)}}
				}
				return out, nil
			}
			w, end := p.run(worker.Options{Spool: t.TempDir()}, tasks.Pure, writes("all of it"))
			p.add("default", 1)
			p.until("the second try", func() bool { return len(p.completions) == 2 })
			if err := end(); err != nil {
				t.Fatal(err)
			}
			if s := w.Stats(); s.Succeeded != 1 {
				t.Errorf("stats are %+v", s)
			}
			if got := p.streams["att_1"]; !lost && got != "all of it" {
				t.Errorf("the stream is %q", got)
			}
		})
	}
}

func TestWriterWaitsWhenTooMuchIsNotDurable(t *testing.T) {
	p := newFake(t)
	var durable atomic.Bool
	p.onDelta = func(_ context.Context, req tasks.DeltaReport) (tasks.DeltaResponse, error) {
		out, err := p.hold(req)
		if !durable.Load() {
			out.DurableTo = 0
		}
		return out, err
	}
	wrote := make(chan struct{})
	_, end := p.run(worker.Options{}, tasks.Pure, func(_ context.Context, task *worker.Task) (any, error) {
		_, err := task.Write(make([]byte, 1<<20))
		close(wrote)
		_, err2 := task.Write(make([]byte, 1<<20))
		return nil, errors.Join(err, err2)
	})
	p.add("default", 1)
	<-wrote
	p.pass(50*time.Millisecond, "questions without bytes", func() bool {
		n := 0
		for _, d := range p.deltas {
			if d.Text == "" && d.Offset == 1<<20 {
				n++
			}
		}
		return n > 2
	})
	if len(p.streams["att_1"]) != 1<<20 {
		t.Fatalf("%d bytes arrived while the writer should wait", len(p.streams["att_1"]))
	}
	durable.Store(true)
	p.pass(50*time.Millisecond, "the end", func() bool { return len(p.completedIDs()) == 1 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if len(p.streams["att_1"]) != 2<<20 {
		t.Errorf("the stream has %d bytes", len(p.streams["att_1"]))
	}
}

func TestWaitingWriterEndsWithTheCauseOfItsContext(t *testing.T) {
	p := newFake(t)
	p.onDelta = func(_ context.Context, req tasks.DeltaReport) (tasks.DeltaResponse, error) {
		_, err := p.hold(req)
		return tasks.DeltaResponse{Cancel: req.Offset > 900<<10}, err
	}
	got := make(chan error, 1)
	p.run(worker.Options{}, tasks.Pure, func(_ context.Context, task *worker.Task) (any, error) {
		_, err := task.Write(make([]byte, 2<<20))
		got <- err
		return nil, err
	})
	p.add("default", 1)
	p.pass(50*time.Millisecond, "the acknowledgement", func() bool { return len(p.fails) == 1 })
	if err := <-got; !errors.Is(err, worker.ErrCancelled) {
		t.Errorf("the write ended with %v", err)
	}
}

func TestStreamOverTheLimitDoesNotHoldTheResultBack(t *testing.T) {
	p := newFake(t)
	p.onDelta = func(context.Context, tasks.DeltaReport) (tasks.DeltaResponse, error) {
		return tasks.DeltaResponse{}, fault.New(fault.TooLarge, "the output stream is too long")
	}
	p.run(worker.Options{}, tasks.Pure, writes("text"))
	p.add("default", 1)
	p.until("the end", func() bool { return len(p.completedIDs()) == 1 })
	if n := p.completions[0].Completions[0].StreamBytes; n != 0 {
		t.Errorf("the completion asks for %d bytes, which were refused", n)
	}
}

func TestProgressAndLogsNeverHoldTheHandler(t *testing.T) {
	p := newFake(t)
	answer := make(chan struct{})
	p.onProgress = func(context.Context, tasks.ProgressReport) error { <-answer; return nil }
	_, end := p.run(worker.Options{}, tasks.Pure, func(_ context.Context, task *worker.Task) (any, error) {
		task.Progress(1, "first")
		for i := range 5000 {
			task.Progress(float64(i), "")
			task.Log("info", "line")
		}
		task.Log("nonsense", strings.Repeat("é", 10_000))
		task.Progress(100, "last")
		close(answer)
		return nil, nil
	})
	p.add("default", 1)
	p.until("the end", func() bool { return len(p.completedIDs()) == 1 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if n := len(p.progress); n > 10 || p.progress[n-1].Message != "last" {
		t.Errorf("%d reports of progress, the last is %+v", n, p.progress[n-1])
	}
	lines, dropped := 0, false
	for _, r := range p.logs {
		if len(r.Lines) > 200 {
			t.Errorf("a report has %d lines", len(r.Lines))
		}
		lines += len(r.Lines)
		for _, l := range r.Lines {
			dropped = dropped || strings.Contains(l.Line, "lines were dropped here")
			if len(l.Line) > tasks.MaxLogLine || !utf8.ValidString(l.Line) {
				t.Errorf("a line has %d bytes or is no UTF-8", len(l.Line))
			}
		}
	}
	if lines > 5002 || !dropped {
		t.Errorf("%d lines, dropped said: %v", lines, dropped)
	}
}

func TestLogsAreRepeatedWhileTheControlPlaneIsAway(t *testing.T) {
	p := newFake(t)
	var tries atomic.Int32
	p.onLog = func(context.Context, tasks.LogReport) error {
		if tries.Add(1) < 3 {
			return away
		}
		return nil
	}
	release := make(chan struct{})
	p.run(worker.Options{}, tasks.Pure, func(_ context.Context, task *worker.Task) (any, error) {
		task.Log("warn", "hear me")
		<-release
		return nil, nil
	})
	p.add("default", 1)
	p.pass(100*time.Millisecond, "the third try", func() bool { return len(p.logs) == 3 })
	close(release)
	p.until("the end", func() bool { return len(p.completedIDs()) == 1 })
}

// TestReportsArePacedAfterTheFirstFew: the first words leave at once, then what is written within the pace
// goes together, and the end of the stream waits for nothing. No time passes here by itself.
func TestReportsArePacedAfterTheFirstFew(t *testing.T) {
	const brisk = 4
	p := newFake(t)
	arrived, passed := make(chan struct{}, 100), make(chan struct{})
	p.onDelta = func(_ context.Context, req tasks.DeltaReport) (tasks.DeltaResponse, error) {
		arrived <- struct{}{}
		return p.hold(req)
	}
	_, end := p.run(worker.Options{Pace: time.Second}, tasks.Pure, func(_ context.Context, task *worker.Task) (any, error) {
		for range brisk {
			if _, err := task.WriteString("now "); err != nil {
				return nil, err
			}
			<-arrived
		}
		for range 10 {
			if _, err := task.WriteString("later "); err != nil {
				return nil, err
			}
		}
		<-passed
		_, err := task.WriteString("last")
		return nil, err
	})
	p.add("default", 1)
	p.pass(100*time.Millisecond, "the pace", func() bool { return len(p.deltas) == brisk+1 })
	close(passed)
	p.until("the end", func() bool { return len(p.completedIDs()) == 1 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat("now ", brisk) + strings.Repeat("later ", 10) + "last"
	if got := p.streams["att_1"]; got != want || len(p.deltas) != brisk+2 {
		t.Errorf("%d reports, stream %q", len(p.deltas), got)
	}
}

// TestStaleStreamDoesNotHoldTheEnd: a control plane that has replaced the attempt refuses its last bytes; the
// end is reported all the same, is refused too, and nothing goes round in circles.
func TestStaleStreamDoesNotHoldTheEnd(t *testing.T) {
	p := newFake(t)
	refused := make(chan struct{})
	stale := fault.New(fault.StaleAttempt, "stale")
	p.onDelta = func(context.Context, tasks.DeltaReport) (tasks.DeltaResponse, error) {
		<-refused
		return tasks.DeltaResponse{}, stale
	}
	p.onComplete = func(_ context.Context, req tasks.CompleteRequest) (tasks.CompleteResponse, error) {
		return tasks.CompleteResponse{Outcomes: []tasks.Outcome{{Error: &tasks.Answer{Code: string(fault.StaleAttempt)}}}}, nil
	}
	w, end := p.run(worker.Options{}, tasks.Pure, func(_ context.Context, task *worker.Task) (any, error) {
		_, err := task.WriteString("words")
		time.AfterFunc(20*time.Millisecond, func() { close(refused) }) // when the end is on its way
		return nil, err
	})
	p.add("default", 1)
	p.until("the end", func() bool { return len(p.completedIDs()) == 1 && w.Stats().Held == 0 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if n := len(p.deltas); n != 1 || w.Stats().Stale != 1 {
		t.Errorf("%d reports, stats %+v", n, w.Stats())
	}
}
