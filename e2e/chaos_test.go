//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"interlock.sh/ai"
	"interlock.sh/fleet"
	"interlock.sh/tasks"
)

const (
	// A lost attempt is noticed when its lease ends, so with the default each agent that is killed would
	// cost half a minute.
	chaosLease = 6 * time.Second
	// A run of so many tokens lasts about a second on an idle machine.
	chaosTokens = 2500
)

// rounds is how often each kill is repeated: make chaos-smoke asks for twenty.
func rounds(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("INTERLOCK_CHAOS_ROUNDS"))
	if os.Getenv("INTERLOCK_CHAOS_ROUNDS") == "" {
		return 2
	}
	if err != nil || n < 1 {
		t.Fatalf("INTERLOCK_CHAOS_ROUNDS is %q, want a number", os.Getenv("INTERLOCK_CHAOS_ROUNDS"))
	}
	return n
}

// report is a row of the table that make chaos-smoke prints.
func report(t *testing.T, format string, args ...any) {
	if os.Getenv("INTERLOCK_CHAOS_ROUNDS") == "" {
		t.Logf(format, args...)
		return
	}
	fmt.Printf(format+"\n", args...)
}

// chaosFleet is a control plane with one machine that serves a model with room for long answers.
func chaosFleet(t *testing.T, args ...string) (*plane, *host, fleet.Group) {
	t.Helper()
	p := newPlane(t, args...).signIn()
	g, keys := p.tinyGroup("chaos")
	return p, serving(t, p, g.ID, keys, realServer(t)), g
}

// watched is a run that a reader follows.
type watched struct {
	ai.Run
	until int           // bytes of the answer that are read before the run is disturbed
	begun chan struct{} // closed when they have been
	ended chan error    // why the reader stopped

	offset    int64 // bytes of the newest attempt's stream, as far as read
	text      strings.Builder
	restarted int
	gap       error
}

// ask submits a long run and follows it until so many bytes of its answer were read; with 0 it returns
// at once.
func ask(t *testing.T, p *plane, until int) *watched {
	t.Helper()
	run, err := p.SubmitRun(t.Context(), ai.RunRequest{Model: "chaos", Prompt: "Say something long.", MaxTokens: chaosTokens})
	if err != nil {
		t.Fatalf("submit: %v", err)
	}
	w := &watched{Run: run, until: until, begun: make(chan struct{}), ended: make(chan error, 1)}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	go func() {
		var err error
		w.Run, err = p.FollowRun(ctx, run.ID, w.event)
		w.ended <- err
	}()
	if until == 0 {
		return w
	}
	select {
	case <-w.begun:
	case err := <-w.ended:
		t.Fatalf("the run ended before it was to be disturbed: %v", err)
	}
	return w
}

// event checks that a reader gets every byte of the stream once, whatever happens on the way.
func (w *watched) event(event string, ev ai.StreamEvent) error {
	switch event {
	case ai.StreamRestarted:
		w.restarted++
		w.offset = 0
		w.text.Reset()
	case ai.StreamDelta:
		if ev.Offset < w.offset {
			w.gap = fmt.Errorf("a delta at %d after one at %d", ev.Offset, w.offset)
		}
		w.offset = ev.Offset
		before := w.text.Len()
		w.text.WriteString(ev.Text)
		if w.restarted == 0 && before < w.until && w.text.Len() >= w.until {
			close(w.begun)
		}
	}
	return nil
}

// wantEnd waits for the end of the run and checks what must hold of every run.
func (w *watched) wantEnd(t *testing.T, p *plane, attempts int) {
	t.Helper()
	if err := <-w.ended; err != nil {
		t.Fatalf("follow run %s: %v", w.ID, err)
	}
	if w.State != tasks.Succeeded || w.Attempt != attempts {
		t.Errorf("run %s is %s after %d attempts (%v), want succeeded after %d", w.ID, w.State, w.Attempt, w.Error, attempts)
	}
	if w.gap != nil || w.Answer == nil || w.text.String() != *w.Answer {
		t.Errorf("run %s: the reader got %d bytes (%v), the answer is another", w.ID, w.text.Len(), w.gap)
	}
	if got := w.restarted; got != attempts-1 {
		t.Errorf("run %s: the reader was told %d times of a new beginning, want %d", w.ID, got, attempts-1)
	}
	if n := usageOf(t, p, w.ID); n != 1 {
		t.Errorf("run %s has %d usage events, want exactly one", w.ID, n)
	}
}

func usageOf(t testing.TB, p *plane, run string) (n int) {
	t.Helper()
	list, err := p.Usage(t.Context(), "", 500)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Events {
		if e.RunID == run {
			n++
		}
	}
	return n
}

// The server is killed in the middle of a run and started again: the agent goes on answering, the run
// succeeds on its first attempt, a reader that comes back has lost nothing, and it is charged once.
func TestKilledServerLosesNothing(t *testing.T) {
	t.Parallel()
	p, _, _ := chaosFleet(t)
	report(t, "%-22s %5s  %9s %9s %8s  %s", "kill -9 of the server", "round", "down", "run", "attempts", "usage events")
	for round := 1; round <= rounds(t) && !t.Failed(); round++ {
		began := time.Now()
		w := ask(t, p, somewhere(round))
		killed := time.Now()
		p.serve.kill()
		p.restart()
		down := time.Since(killed)
		w.wantEnd(t, p, 1)
		report(t, "%-22s %5d  %9s %9s %8d  %d", "", round, ms(down), ms(time.Since(began)), w.Attempt, usageOf(t, p, w.ID))
	}
}

// somewhere is another place of the answer each round: its first words, its middle, near its end.
func somewhere(round int) int { return 1 + (round-1)%4*(chaosTokens/5) }

// The server is killed as soon as it has taken a run, while the run is on its way to the machine. What was
// acknowledged is done: when the claim was lost with its answer, by a second attempt.
func TestServerKilledWhenARunIsTaken(t *testing.T) {
	t.Parallel()
	p, _, _ := chaosFleet(t, "--lease", chaosLease.String())
	for range rounds(t) {
		w := ask(t, p, 0)
		p.serve.kill()
		p.restart()
		if err := <-w.ended; err != nil {
			t.Fatalf("follow run %s: %v", w.ID, err)
		}
		if w.State != tasks.Succeeded || w.Answer == nil || w.text.String() != *w.Answer || w.gap != nil || usageOf(t, p, w.ID) != 1 {
			t.Errorf("run %s is %s after %d attempts (%v, %v) with %d usage events", w.ID, w.State, w.Attempt, w.Error, w.gap, usageOf(t, p, w.ID))
		}
	}
}

// The agent is killed in the middle of a run: its model server is gone within two seconds, and once the
// lease has run out the run is tried a second time, by the agent that was started again. Readers are
// told of the new beginning.
func TestKilledAgentIsReplaced(t *testing.T) {
	t.Parallel()
	p, h, g := chaosFleet(t, "--lease", chaosLease.String())
	report(t, "%-22s %5s  %9s %9s %8s  %s", "kill -9 of the agent", "round", "child", "run", "attempts", "usage events")
	for round := 1; round <= rounds(t) && !t.Failed(); round++ {
		began := time.Now()
		child := h.modelServer()
		w := ask(t, p, somewhere(round))
		killed := time.Now()
		h.agent.kill()
		untilWithin(t, 2*time.Second, "the model server is gone", func() error {
			if line, there := h.modelServers()[child]; there {
				return errors.New(line)
			}
			return nil
		})
		gone := time.Since(killed)
		h.start()
		w.wantEnd(t, p, 2)
		report(t, "%-22s %5d  %9s %9s %8d  %d", "", round, ms(gone), ms(time.Since(began)), w.Attempt, usageOf(t, p, w.ID))
		p.wantReady(g.ID)
	}
}

// Everything is killed at once, as when a machine loses its power, and started again.
func TestEverythingKilledAtOnce(t *testing.T) {
	t.Parallel()
	p, h, _ := chaosFleet(t, "--lease", chaosLease.String())
	w := ask(t, p, 1)
	p.serve.kill()
	h.agent.kill()
	until(t, "the model server is gone", func() error { return none(h.modelServers()) })
	p.restart()
	h.start()
	w.wantEnd(t, p, 2)
}

// A run whose machine is lost for good is not stuck: it ends at its own deadline, with one charge for what
// the lost machine did.
func TestRunOfALostMachineEnds(t *testing.T) {
	t.Parallel()
	p, h, _ := chaosFleet(t, "--lease", "2s")
	run, err := p.SubmitRun(t.Context(), ai.RunRequest{Model: "chaos", Prompt: "Say something long.", MaxTokens: chaosTokens, TimeoutMs: 8000})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the run is running", func() error { return isState(p, run.ID, tasks.Running) })
	h.agent.kill()
	untilWithin(t, 20*time.Second, "the run ends at its deadline", func() error { return isState(p, run.ID, tasks.Expired) })
	if n := usageOf(t, p, run.ID); n != 1 {
		t.Errorf("%d usage events, want exactly one", n)
	}
}

func isState(p *plane, run string, want tasks.State) error {
	r, err := p.Run(p.t.Context(), run)
	if err == nil && r.State != want {
		err = fmt.Errorf("it is %s (%v)", r.State, r.Error)
	}
	return err
}

// A machine that is paused, or whose agent is told to end, in the middle of an answer finishes it first.
func TestAnswerInHandIsFinished(t *testing.T) {
	t.Parallel()
	p, h, g := chaosFleet(t)
	w := ask(t, p, 1)
	h.ok("agent", "pause")
	w.wantEnd(t, p, 1)
	p.wantState(g.ID, isPaused, "paused")
	if err := none(h.modelServers()); err != nil {
		t.Errorf("paused: %v", err)
	}
	h.ok("agent", "resume")
	p.wantReady(g.ID)
	w = ask(t, p, 1)
	h.agent.stop()
	w.wantEnd(t, p, 1)
}

func ms(d time.Duration) string { return d.Round(time.Millisecond).String() }
