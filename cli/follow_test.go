package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"interlock.sh/ai"
	"interlock.sh/client"
	"interlock.sh/tasks"
)

func serveJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// silent answers a stream that is open and never says anything.
func silent(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func testClient(t *testing.T, mux *http.ServeMux) *client.Client {
	t.Helper()
	srv := httptest.NewServer(mux)
	c, err := client.New(client.Options{BaseURL: srv.URL, Credential: "x"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); srv.CloseClientConnections(); srv.Close() })
	return c
}

func TestARunEndsThoughItsStreamIsHeldUp(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/ai/runs/r1/stream", silent)
	mux.HandleFunc("GET /api/ai/runs/r1", func(w http.ResponseWriter, _ *http.Request) {
		serveJSON(w, ai.Run{ID: "r1", State: tasks.Succeeded})
	})
	_, _, _, clk := testApp(noon)
	c := testClient(t, mux)
	got := make(chan ai.Run, 1)
	go func() {
		run, err := followRun(t.Context(), c, "r1", func(string, ai.StreamEvent) error { return nil }, clk)
		if err != nil {
			t.Error(err)
		}
		got <- run
	}()
	for range 2 { // one read finds the end, the next gives up on the stream
		clk.AwaitWaiters(1)
		clk.Advance(pollEvery)
	}
	if run := <-got; run.State != tasks.Succeeded {
		t.Errorf("got %+v", run)
	}
}

func TestATaskIsWatchedThoughItsStreamIsHeldUp(t *testing.T) {
	var reads atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/tasks/t1/watch", silent)
	mux.HandleFunc("GET /api/tasks/t1/journal", func(w http.ResponseWriter, r *http.Request) {
		page := tasks.Journal{State: tasks.Running}
		switch n := reads.Add(1); {
		case n == 1:
			page.Entries = []tasks.Entry{{Seq: 1, Kind: tasks.EntrySubmitted}}
		case r.URL.Query().Get("after") != "1":
			t.Errorf("read %d is after %q", n, r.URL.Query().Get("after"))
		case n > 2:
			page.State = tasks.Succeeded
		}
		serveJSON(w, page)
	})
	a, _, _, clk := testApp(noon)
	c := testClient(t, mux)
	done := make(chan error, 1)
	var seen []int64
	go func() {
		done <- a.followJournal(t.Context(), c, "t1", func(e tasks.Entry) error { seen = append(seen, e.Seq); return nil })
	}()
	clk.AwaitWaiters(1)
	clk.Advance(pollEvery)
	if err := <-done; err != nil || len(seen) != 1 {
		t.Errorf("saw %v, %v", seen, err)
	}
}

func TestInterruptLeavesTheRunAndASecondOneCancelsIt(t *testing.T) {
	var cancels atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/ai/runs/r1/cancel", func(w http.ResponseWriter, _ *http.Request) {
		cancels.Add(1)
		serveJSON(w, ai.Run{ID: "r1", State: tasks.Cancelled})
	})
	c := testClient(t, mux)
	for _, second := range []bool{false, true} {
		a, _, errs, clk := testApp(noon)
		interrupts := make(chan os.Signal, 1)
		a.env.Interrupt = interrupts
		done := make(chan error, 1)
		go func() { done <- a.interrupted(context.Background(), c, "r1", false) }()
		clk.AwaitWaiters(1)
		if second {
			interrupts <- os.Interrupt
		} else {
			clk.Advance(secondInterrupt)
		}
		var ended *exit
		if err := <-done; !errors.As(err, &ended) || ended.code != ExitError {
			t.Errorf("ended with %v", err)
		}
		if got := cancels.Load() == 1; got != second {
			t.Errorf("second interrupt %v: cancelled %v", second, got)
		}
		if !strings.Contains(errs.String(), "`interlock runs get r1` shows its answer") {
			t.Errorf("said %q", errs)
		}
	}
}
