package servertasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"interlock.sh/fault"
	servertasks "interlock.sh/server/tasks"
	"interlock.sh/tasks"
)

// reader follows a task's stream like a client that may be cut off: what it got, by attempt.
type reader struct {
	mu   sync.Mutex
	more *sync.Cond
	pos  servertasks.Position
	text map[int]string
	bad  string
	end  *tasks.View

	cancel context.CancelFunc
	done   chan struct{}
}

func newReader() *reader {
	r := &reader{text: map[int]string{}}
	r.more = sync.NewCond(&r.mu)
	return r
}

// follow connects from where the reader stands.
func (r *reader) follow(p *plane, id string) {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.done = cancel, make(chan struct{})
	go func() {
		defer close(r.done)
		for e, err := range p.core.Stream(ctx, project, id, r.pos) {
			r.take(e, err)
		}
	}()
}

func (r *reader) cut() {
	r.cancel()
	<-r.done
}

func (r *reader) take(e servertasks.StreamEvent, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.more.Broadcast()
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			r.bad = err.Error()
		}
		return
	}
	switch e.Kind {
	case servertasks.StreamText:
		if got := int64(len(r.text[e.Attempt])); e.Offset != got || e.Attempt < r.pos.Attempt {
			r.bad = "attempt " + strconv.Itoa(e.Attempt) + " at " + strconv.FormatInt(e.Offset, 10) + ", but " + strconv.FormatInt(got, 10) + " bytes were read"
		}
		r.text[e.Attempt] += e.Text
		r.pos = servertasks.Position{Attempt: e.Attempt, Offset: e.Offset + int64(len(e.Text))}
	case servertasks.StreamRestarted:
		r.pos = servertasks.Position{Attempt: e.Attempt}
	case servertasks.StreamEnd:
		r.end = &e.Task
	}
}

// await blocks until the reader has n bytes of an attempt.
func (r *reader) await(attempt, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.text[attempt]) < n && r.bad == "" {
		r.more.Wait()
	}
}

func (p *plane) delta(a tasks.Attempt, offset int, text string) (tasks.DeltaResponse, error) {
	return p.core.Delta(context.Background(), caller, tasks.DeltaReport{Ref: a.Ref, Offset: int64(offset), Text: text})
}

func TestAReaderGetsBytesFromMemoryBeforeTheyAreDurable(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	a := p.one(tasks.Pure, tasks.SubmitRequest{})
	r := newReader()
	r.follow(p, a.TaskID)
	if d, err := p.delta(a, 0, "hello"); err != nil || d.DurableTo != 0 {
		t.Fatalf("answer %+v, %v", d, err)
	}
	r.await(1, 5) // the clock stands still: no chunk can have been written
	if got := p.kinds(a.TaskID); len(got) != 2 {
		t.Fatalf("journal %v", got)
	}
	p.complete(a, `"x"`, 5)
	<-r.done
	if r.bad != "" || r.end == nil || r.end.State != tasks.Succeeded || r.text[1] != "hello" {
		t.Fatalf("reader %+v", r)
	}
}

// eventually polls through the real API; the flush runs on a goroutine of its own.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 10 s", what)
		}
	}
}

func TestDeltasAreJournalledAsChunks(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	a := p.one(tasks.Pure, tasks.SubmitRequest{})
	durable := func(want int64) func() bool {
		return func() bool {
			d, err := p.delta(a, 0, "")
			if err != nil {
				t.Fatal(err)
			}
			return d.DurableTo == want
		}
	}
	for i := range 10 {
		if _, err := p.delta(a, i, "x"); err != nil {
			t.Fatal(err)
		}
	}
	p.clock.AwaitWaiters(1)
	p.clock.Advance(100 * time.Millisecond)
	eventually(t, "a chunk by time", durable(10))
	if _, err := p.delta(a, 10, strings.Repeat("y", 5000)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a chunk by size", durable(5010))
	j, err := p.core.Journal(context.Background(), project, a.TaskID, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var chunks []string
	for _, e := range j.Entries {
		if e.Kind == tasks.EntryDelta {
			var d tasks.DeltaData
			if err := json.Unmarshal(e.Data, &d); err != nil {
				t.Fatal(err)
			}
			chunks = append(chunks, strconv.FormatInt(d.Offset, 10)+"+"+strconv.Itoa(len(d.Text)))
		}
	}
	if strings.Join(chunks, " ") != "0+10 10+5000" {
		t.Fatalf("chunks %v", chunks)
	}
}

func TestAStreamAfterARestartGoesOnFromTheJournal(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	a := p.one(tasks.Idempotent, tasks.SubmitRequest{})
	if _, err := p.delta(a, 0, "lost with the memory"); err != nil {
		t.Fatal(err)
	}
	p.crash()
	_, err := p.delta(a, 20, " and more")
	wantCode(t, err, fault.StreamGap)
	if got := fault.Of(err).Details["durableTo"]; got != int64(0) {
		t.Fatalf("durableTo %v", got)
	}
	if o := p.complete(a, `1`, 20); o.Error == nil || o.Error.Code != string(fault.StreamGap) {
		t.Fatalf("outcome %+v", o)
	}
	if _, err := p.delta(a, 0, "sent again"); err != nil {
		t.Fatal(err)
	}
	if o := p.complete(a, `1`, 10); o.State != tasks.Succeeded {
		t.Fatalf("outcome %+v", o)
	}
}

// Whatever a reader holds already, it gets the rest: of a stream that is being written, whose oldest
// bytes memory no longer has, and of one that ended.
func TestAReaderMayBeginAnywhere(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	a := p.one(tasks.Pure, tasks.SubmitRequest{})
	var whole strings.Builder
	for i := range 80 {
		part := strings.Repeat(string(rune('a'+i%26)), 4096)
		if _, err := p.delta(a, whole.Len(), part); err != nil {
			t.Fatal(err)
		}
		whole.WriteString(part)
		want := int64(whole.Len())
		eventually(t, "a chunk by size", func() bool {
			d, err := p.delta(a, 0, "")
			return err == nil && d.DurableTo == want
		})
	}
	rest := func(from int) string {
		var b strings.Builder
		for e, err := range p.core.Stream(context.Background(), project, a.TaskID, servertasks.Position{Attempt: 1, Offset: int64(from)}) {
			if err != nil {
				t.Fatal(err)
			}
			b.WriteString(e.Text)
			if b.Len() >= whole.Len()-from {
				break
			}
		}
		return b.String()
	}
	for _, ended := range []bool{false, true} {
		for _, from := range []int{0, 1, 4095, 4096, 4097, whole.Len() / 2, whole.Len() - 4097, whole.Len() - 4096, whole.Len() - 1} {
			if got := rest(from); got != whole.String()[from:] {
				t.Fatalf("from %d (ended %v): %d bytes, want %d", from, ended, len(got), whole.Len()-from)
			}
		}
		if !ended {
			p.complete(a, `1`, int64(whole.Len()))
		}
	}
}

func TestAnOverlapThatDiffersIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	a := p.one(tasks.Pure, tasks.SubmitRequest{})
	if _, err := p.delta(a, 0, "ab"); err != nil {
		t.Fatal(err)
	}
	_, err := p.delta(a, 1, "é")
	wantCode(t, err, fault.Invalid)
	_, err = p.delta(a, 2, "\xff")
	wantCode(t, err, fault.Invalid)
	_, err = p.delta(a, 2, strings.Repeat("x", tasks.MaxDelta+1))
	wantCode(t, err, fault.TooLarge)
}

// A worker streams, repeats itself, loses answers and leases; the server crashes; the reader is cut off
// and comes back. It must still read every byte of each attempt that it saw to the end exactly once,
// and all of the last attempt.
func TestStreamProperty(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	rapid.Check(t, func(rt *rapid.T) {
		p.round(rt)
		a := p.one(tasks.Idempotent, tasks.SubmitRequest{MaxAttempts: 100})
		r := newReader()
		r.follow(p, a.TaskID)
		defer func() { r.cut() }()
		sent := map[int]string{} // by attempt, what the worker produced
		durable := 0
		send := func(from int) {
			text := sent[a.Number][from:]
			d, err := p.delta(a, from, text)
			if fault.CodeOf(err) == fault.StreamGap {
				durable = int(fault.Of(err).Details["durableTo"].(int64))
				d, err = p.delta(a, durable, sent[a.Number][durable:])
			}
			if err != nil {
				rt.Fatal(err)
			}
			if int(d.DurableTo) > len(sent[a.Number]) || int(d.DurableTo) < durable {
				rt.Fatalf("durable to %d after %d, of %d", d.DurableTo, durable, len(sent[a.Number]))
			}
			durable = int(d.DurableTo)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"produce": func(rt *rapid.T) {
				from := len(sent[a.Number])
				sent[a.Number] += rapid.StringN(1, 40, 3000).Draw(rt, "text")
				if rapid.Bool().Draw(rt, "sent") {
					send(from)
				}
			},
			"repeat": func(rt *rapid.T) {
				from := rapid.IntRange(0, len(sent[a.Number])).Draw(rt, "from")
				for from > 0 && from < len(sent[a.Number]) && !utf8.RuneStart(sent[a.Number][from]) {
					from--
				}
				send(from)
			},
			"time": func(*rapid.T) {
				p.clock.Advance(100 * time.Millisecond)
				p.renew(a)
			},
			"crash": func(rt *rapid.T) {
				if crashes(rt) {
					r.cut()
					p.crash()
					durable = 0
					r.follow(p, a.TaskID)
				}
			},
			"cut": func(*rapid.T) {
				r.cut()
				r.follow(p, a.TaskID)
			},
			"lose": func(*rapid.T) {
				p.advance(31 * time.Second)
				a = p.claim("w1", 1)[0]
				durable = 0
			},
		})
		send(0)
		p.complete(a, `1`, int64(len(sent[a.Number])))
		<-r.done
		if r.bad != "" || r.end == nil {
			rt.Fatalf("reader: %s, end %v", r.bad, r.end)
		}
		if r.text[a.Number] != sent[a.Number] {
			rt.Fatalf("read %q of the last attempt, want %q", r.text[a.Number], sent[a.Number])
		}
		for n, text := range r.text {
			if !strings.HasPrefix(sent[n], text) {
				rt.Fatalf("attempt %d: read %q, but %q was produced", n, text, sent[n])
			}
		}
	})
}
