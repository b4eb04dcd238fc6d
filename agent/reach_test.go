package agent

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"interlock.sh/ai"
	"interlock.sh/fleet/schedule"
	"interlock.sh/internal/testkit/fakellama"
	"interlock.sh/tasks"
)

// A run that is submitted by day waits for the owner's hours, says so, and starts when the clock of both
// sides reaches 22:00.
func TestARunSubmittedByDayStartsAtTen(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{}, inZone("Europe/Berlin", "12:00"), onOneClock)
	r.plane.Deploy(nil, r.group, "tiny", 1)
	r.start()
	r.awaitMachine("ready")
	r.wants(schedule.Availability{Mode: schedule.Night})
	r.awaitMachine("paused (by owner until 22:00)")
	read := func(id string) ai.Run {
		run, err := r.plane.Owner.Run(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	run, err := r.plane.Owner.SubmitRun(t.Context(), ai.RunRequest{Model: "tiny", Prompt: "good evening", WaitForMs: (12 * time.Hour).Milliseconds()})
	if err != nil {
		t.Fatal(err)
	}
	opens := time.Date(2026, 6, 10, 22, 0, 0, 0, r.night.zone.Location)
	if w := run.Waiting; run.State != tasks.Queued || w == nil || w.Reason != "about 22:00, mini's hours" || w.NotBefore == nil || !w.NotBefore.Equal(opens) {
		t.Errorf("by day it is %s and waits for %+v", run.State, run.Waiting)
	}
	r.fake.Advance(opens.Sub(r.fake.Now()) - time.Minute)
	r.limit = opens.Add(-time.Second) // however long the machine takes to say it
	r.awaitMachine("paused (by owner until 22:00)")
	if run := read(run.ID); run.State != tasks.Queued || run.Waiting == nil || run.Waiting.Reason != "about 22:00, mini's hours" {
		t.Errorf("a minute before it is %s and waits for %+v", run.State, run.Waiting)
	}
	r.limit = time.Time{}
	r.fake.Advance(opens.Sub(r.fake.Now()))
	r.await("the answer", func() bool { return read(run.ID).State.Terminal() })
	done := read(run.ID)
	if done.State != tasks.Succeeded || done.Machine != "mini" || done.Waiting != nil || done.UsageEventID == "" || done.StartedAt == nil ||
		done.StartedAt.Before(opens) {
		t.Errorf("it ended as %+v, started at %v", done, done.StartedAt)
	}
}

// The page of a captive portal is said in words to the owner, and the agent goes on by itself when it is
// gone; the models stay.
func TestACaptivePortalIsSaidAndPasses(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{}, onFakeTime)
	r.plane.Deploy(nil, r.group, "tiny", 1)
	r.start()
	r.awaitMachine("ready")
	lastError := func() string { return r.agent.Status(context.Background()).LastError }
	for name, page := range map[string]func(http.ResponseWriter, *http.Request){
		"a page": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<html>Welcome"))
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://login.hotel.example/", http.StatusFound)
		},
		"the status for it": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNetworkAuthenticationRequired)
		},
	} {
		r.road.rules(func(w http.ResponseWriter, req *http.Request) bool { page(w, req); return true })
		r.await(name+" to be said", func() bool {
			return strings.Contains(lastError(), "a login page answered instead of "+r.road.URL+" (captive portal?)")
		})
		if words := lastError(); !strings.Contains(words, "sign in to this network") {
			t.Errorf("%s: %s", name, words)
		}
		if st := r.deployment("tiny").State; !st.Serving() {
			t.Errorf("%s: the model is %s", name, st)
		}
		r.road.open()
		r.await("the words to go", func() bool { return lastError() == "" })
	}
}

// A clock that is 20 minutes off is a warning that everybody sees.
func TestAClockThatIsOffIsAWarning(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{}, onFakeTime)
	const words = "this machine's clock is 20 min behind the control plane's"
	warned := func() bool { return slices.Contains(r.machine().Warnings, words) }
	r.start()
	r.awaitMachine("idle")
	if warned() {
		t.Error("warned of a clock that is right")
	}
	r.road.rules(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Date", time.Now().Add(20*time.Minute).UTC().Format(http.TimeFormat))
		return false
	})
	r.await("the warning", warned)
	r.road.open()
	r.await("the warning to go", func() bool { return !warned() })
}
