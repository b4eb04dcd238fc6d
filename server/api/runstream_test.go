package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"interlock.sh/ai"
	"interlock.sh/client"
	"interlock.sh/fleet"
	kit "interlock.sh/internal/testkit/plane"
)

// reader reads a run's stream event by event.
type reader struct {
	*client.EventStream
	t *testing.T
}

func (w *world) watch(run ai.Run, from string) *reader {
	w.t.Helper()
	s, err := w.Client(w.creds["sdk"]).Stream(w.t.Context(), "/api/ai/runs/"+run.ID+"/stream", from)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.Close() })
	return &reader{s, w.t}
}

// next is the next event in words: "delta 1:12 hello".
func (r *reader) next() string {
	r.t.Helper()
	e, err := r.Next()
	if errors.Is(err, io.EOF) {
		return "EOF"
	}
	if err != nil {
		r.t.Fatal(err)
	}
	var ev ai.StreamEvent
	if err := json.Unmarshal(e.Data, &ev); err != nil {
		r.t.Fatal(err)
	}
	switch e.Event {
	case ai.StreamHello, ai.StreamEnd:
		return fmt.Sprintf("%s %s", e.Event, ev.Run.State)
	case ai.StreamRestarted:
		return fmt.Sprintf("%s %d", e.Event, ev.Attempt)
	}
	words := fmt.Sprintf("%s %d@%d %s", e.Event, ev.Attempt, ev.Offset, ev.Text)
	if ev.Chunk != nil {
		words += " +" + ev.Chunk.FinishReason
	}
	return words
}

func (r *reader) want(words ...string) {
	r.t.Helper()
	for _, want := range words {
		if got := r.next(); got != want {
			r.t.Fatalf("event %q, want %q", got, want)
		}
	}
}

// size is how long the chunk of a word is in the stream.
func size(word string) int { return len(`{"delta":{"content":""}}`) + len(word) + 1 }

func TestARunsStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run("hi")
	r := w.watch(run, "")
	r.want("hello queued") // at once, before anybody took it
	a := w.machine.Begin(w.machine.Take())
	a.Say("one")
	r.want("delta 1@0 one") // as it comes, not when it is journalled
	a.Say("two")
	r.want(fmt.Sprintf("delta 1@%d two", size("one")))
	a.Raw(`{"delta":{"content":"hal`)
	a.Raw(`f"}}` + "\n")
	r.want(fmt.Sprintf("delta 1@%d half", 2*size("one")))
	a.Raw("this is no chunk\n")
	a.Chunk(ai.Chunk{FinishReason: "stop"})
	if got := r.next(); !strings.HasSuffix(got, " +stop") {
		t.Errorf("the finish: %q", got)
	}
	id := r.LastEventID()
	a.Finish(3)
	r.want("end succeeded", "EOF")
	if id != fmt.Sprintf("1:%d", a.Sent) {
		t.Errorf("the last id is %s, the stream has %d bytes", id, a.Sent)
	}

	// Whoever comes late, or comes back, has every byte once.
	late := w.watch(run, "")
	late.want("hello succeeded", "delta 1@0 one", fmt.Sprintf("delta 1@%d two", size("one")))
	back := w.watch(run, late.LastEventID())
	back.want("hello succeeded", fmt.Sprintf("delta 1@%d half", 2*size("one")))
	for _, nonsense := range []string{"x", "-1:5", "1", "9:9:9x"} {
		again := w.watch(run, nonsense)
		again.want("hello succeeded")
		if got := again.next(); !strings.HasPrefix(got, "delta") && !strings.HasPrefix(got, "end") && !strings.HasPrefix(got, "restarted") {
			t.Errorf("from %q: %q", nonsense, got)
		}
	}
	atEnd := w.watch(run, id)
	atEnd.want("hello succeeded", "end succeeded", "EOF")
}

// A worker that writes no chunks costs its readers nothing but its own words.
func TestALineWithoutEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run("hi")
	r := w.watch(run, "")
	r.want("hello queued")
	a := w.machine.Begin(w.machine.Take())
	a.Say("before")
	for range 20 {
		a.Raw(strings.Repeat("x", 60<<10))
	}
	a.Raw("x\n")
	at := a.Sent
	a.Say("after")
	r.want("delta 1@0 before", fmt.Sprintf("delta 1@%d after", at))
	a.Finish(2)
	r.want("end succeeded", "EOF")
	w.watch(run, "").want("hello succeeded", "delta 1@0 before", fmt.Sprintf("delta 1@%d after", at), "end succeeded", "EOF")
}

func TestAStreamSaysWhenAnAnswerBeginsAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run("hi")
	r := w.watch(run, "")
	r.want("hello queued")
	w.machine.Begin(w.machine.Take()).Say("lost", "words")
	r.want("delta 1@0 lost", fmt.Sprintf("delta 1@%d words", size("lost")))
	cut := r.LastEventID()
	w.lose(w.machine)
	a := w.machine.Begin(w.machine.Take())
	a.Say("new")
	r.want("restarted 2", "delta 2@0 new")
	a.Finish(1)
	r.want("end succeeded", "EOF")
	// One that stood in the first attempt hears of it too; one that comes late needs only the answer.
	back := w.watch(run, cut)
	back.want("hello succeeded", "restarted 2", "delta 2@0 new", "end succeeded", "EOF")
}

// The client's FollowRun holds through a break of the connection and a restart of the server.
func TestFollowARunOverARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run("hi")
	held := w.machine.Take()
	first := w.machine.Begin(held)
	first.Say("before")
	r := w.watch(run, "")
	r.want("hello leased", "delta 1@0 before") // the words are in memory, the journal is not written yet
	last := r.LastEventID()
	w.Stop()
	w.Again()
	m := *w.machine
	m.Client = w.Client(w.machine.Credential)
	a := m.Begin(held)
	a.Sent = first.Sent
	r = w.watch(run, last)
	r.want("hello running")
	a.Say("after")
	r.want(fmt.Sprintf("delta 1@%d after", size("before")))
	a.Finish(2)
	r.want("end succeeded", "EOF")
	usage, err := w.Client(w.creds["sdk"]).Usage(t.Context(), "", 0)
	if err != nil || usage.Runs != 1 {
		t.Errorf("%d usage events, %v", usage.Runs, err)
	}
}

// An idle stream says that it lives every 25 s.
func TestStreamsHaveHeartbeats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run("hi")
	task := w.task()
	for path, as := range map[string]string{
		"/api/ai/runs/" + run.ID + "/stream": "sdk",
		"/api/tasks/" + task.ID + "/watch":   "task-producer",
		"/api/events":                        "task-producer",
		"/api/workers/events":                "machine",
	} {
		resp, err := w.Client(w.creds[as]).Open(t.Context(), "GET", path)
		if err != nil {
			t.Fatal(path, err)
		}
		if h := resp.Header; h.Get("X-Accel-Buffering") != "no" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", path, h)
		}
		lines := make(chan string, 64)
		go func() {
			defer close(lines)
			buf, text := make([]byte, 4096), ""
			for {
				n, err := resp.Body.Read(buf)
				text += string(buf[:n])
				for {
					line, rest, whole := strings.Cut(text, "\n")
					if !whole {
						break
					}
					lines <- line
					text = rest
				}
				if err != nil {
					return
				}
			}
		}()
		alive := func() bool {
			for {
				select {
				case line := <-lines:
					if strings.HasPrefix(line, ": still here") {
						return true
					}
				default:
					return false
				}
			}
		}
		if alive() {
			t.Errorf("%s: a heartbeat before its time", path)
		}
		kit.Await(t, path+": a heartbeat", func() bool {
			w.clock.Advance(25 * time.Second)
			return alive()
		})
		_ = resp.Body.Close()
	}
}

// A project's hints say what kind of thing changed, and nothing of it.
func TestProjectHints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	events, err := w.mine.Stream(t.Context(), "/api/events", "")
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close() //nolint:errcheck // read only
	until := func(kind string) {
		t.Helper()
		for {
			e, err := events.Next()
			if err != nil {
				t.Fatal(kind, err)
			}
			if string(e.Data) != "{}" {
				t.Errorf("a hint says %s", e.Data)
			}
			if e.Event == kind {
				return
			}
		}
	}
	w.machine.Beat(fleet.State{Kind: fleet.StateLoading})
	until("machines")
	w.run("x")
	until("runs")
	w.task()
	until("tasks")
}

// The chunk that only says who speaks is no event: a reader has nothing to show for it.
func TestAStreamHasNoEmptyDeltas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.watch(w.run("hi"), "")
	r.want("hello queued")
	a := w.machine.Begin(w.machine.Take())
	role := `{"delta":{"role":"assistant","content":null}}` + "\n"
	a.Raw(role)
	a.Say("one")
	r.want(fmt.Sprintf("delta 1@%d one", len(role)))
	a.Finish(1)
	r.want("end succeeded", "EOF")
}
