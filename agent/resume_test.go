package agent

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"interlock.sh/agent/hostfacts"
	"interlock.sh/agent/localapi"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
	"interlock.sh/internal/testkit/fakellama"
)

// Whatever ceiling held before the owner paused the machine holds again when they resume. It stands in the file,
// so an agent that was started anew knows it too.
func TestResumingBringsBackTheCeilingFromBefore(t *testing.T) {
	t.Parallel()
	evening := []schedule.Span{{Start: "20:00", End: "21:00"}}
	for name, before := range map[string]schedule.Availability{
		"always":            {Mode: schedule.Always},
		"nothing said":      {},
		"the night":         {Mode: schedule.Night, OnMains: true},
		"windows of my own": {Mode: schedule.Window, Windows: evening, IdleMinutes: 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, fakellama.Config{}, inZone("Europe/Berlin", "12:00"))
			r.start()
			r.wants(before)
			pause := before
			for range 2 { // who pauses a machine that is paused does not forget either
				pause.Mode = schedule.Paused
				r.wants(pause)
			}
			want := before
			if want.Mode == "" {
				want.Mode = schedule.Always
			}
			if w, problem := loadWish(r.e.Dir()); problem != "" || w.Mode != schedule.Paused || w.Before != want.Mode {
				t.Fatalf("paused: %+v, %s", w, problem)
			}
			st, err := r.door().SetOwner(t.Context(), fleet.Active)
			if err != nil {
				t.Fatal(err)
			}
			if st.Wish.String() != want.String() || st.Wish.Mode != want.Mode || st.Wish.Before != "" {
				t.Errorf("resumed: %+v, want %+v", st.Wish, want)
			}
		})
	}
}

func TestHoursThatNobodyKnowsAreNotMadeUp(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]localapi.Wish{
		"a file from elsewhere":   {},
		"windows that went":       {Before: schedule.Window},
		"a mode that is none":     {Before: "dusk"},
		"paused before as well":   {Before: schedule.Paused},
		"windows that cannot be":  {Before: schedule.Window, Availability: schedule.Availability{Windows: []schedule.Span{{Start: "25:00", End: "26:00"}}}},
		"limits that are no such": {Before: schedule.Night, Availability: schedule.Availability{IdleMinutes: -1}},
	} {
		w.Mode = schedule.Paused
		if err := takeUp(&w); !errors.Is(err, fault.Conflict) || !strings.Contains(fault.Of(err).Hint, "interlock agent hours") || w.Mode != schedule.Paused {
			t.Errorf("%s: %v, %+v", name, err, w)
		}
	}
}

// Hours that cannot be read are a pause that only new hours end, however it is asked for, and the file is kept.
func TestDamagedHoursStayAPauseUntilNewOnesAreSet(t *testing.T) {
	t.Parallel()
	const torn = `{"schema":2,"mode":"night","onMa`
	r := newRig(t, fakellama.Config{}, inZone("Europe/Berlin", "12:00"))
	path := ownerPath(r.e.Dir())
	must(t, os.WriteFile(path, []byte(torn), 0o600))
	kept := func(path string) {
		t.Helper()
		if b, err := os.ReadFile(path); err != nil || string(b) != torn {
			t.Errorf("%s holds %q, %v", path, b, err)
		}
	}
	r.start()
	door := r.door()
	for _, ask := range []fleet.Mode{fleet.Active, fleet.Paused, fleet.Draining, fleet.Active, "an hour"} {
		var err error
		if ask == "an hour" {
			_, err = door.Pause(t.Context(), time.Hour)
		} else {
			_, err = door.SetOwner(t.Context(), ask)
		}
		if refused := ask == fleet.Active; refused != errors.Is(err, fault.Conflict) || refused && !strings.Contains(fault.Of(err).Hint, "interlock agent hours") {
			t.Errorf("%s: %v", ask, err)
		}
		if st := r.agent.Status(t.Context()); st.Hours.Open || st.Owner != fleet.Paused || !strings.Contains(st.Words, "owner.json cannot be read") {
			t.Errorf("after %s: %s, %+v", ask, st.Words, st.Hours)
		}
		kept(path)
	}
	if c := r.agent.checkHours(); c.OK || !strings.Contains(c.Detail, "owner.json") || c.Fix == "" {
		t.Errorf("doctor: %+v", c)
	}
	if st := r.wants(schedule.Availability{Mode: schedule.Night}); st.Wish.Mode != schedule.Night || st.Hours.Why != "until 22:00" || st.Wish.Hold == nil {
		t.Errorf("new hours beside the pause: %+v, %+v", st.Wish, st.Hours)
	}
	kept(asidePath(r.e.Dir()))

	// A machine that lost its power between the two files stays paused as well.
	must(t, os.Remove(path))
	if w, problem := loadWish(r.e.Dir()); w.Mode != schedule.Paused || !strings.Contains(problem, "owner.json.damaged") {
		t.Errorf("with none but the damaged one: %+v, %s", w, problem)
	}
	if _, err := door.SetOwner(t.Context(), fleet.Active); err != nil {
		t.Error("resume:", err)
	}
	r.wants(schedule.Availability{Mode: schedule.Always})
	r.awaitMachine("idle")
	kept(asidePath(r.e.Dir()))
}

func TestDoctorFindsALimitThatIsNotKept(t *testing.T) {
	t.Parallel()
	wrong := hostfacts.Zone{Location: time.UTC, Problem: `the time zone "Mars/Olympus" of TZ does not exist`}
	night := schedule.Availability{Mode: schedule.Night}
	unsure := schedule.Availability{Mode: schedule.Always, OnMains: true, IdleMinutes: 10}
	for name, c := range map[string]struct {
		w        schedule.Availability
		damaged  string
		zone     hostfacts.Zone
		ok, warn bool
		words    string
	}{
		"as it should be":          {w: night, ok: true, words: "22:00–07:00"},
		"damaged":                  {w: night, damaged: "the hours in owner.json cannot be read", words: "cannot be read"},
		"what cannot be measured":  {w: unsure, words: "mains power is not known; whether somebody uses it is not known"},
		"a zone the hours go by":   {w: night, zone: wrong, words: "Mars/Olympus"},
		"a zone downloads go by":   {w: schedule.Availability{Bandwidth: []schedule.Bandwidth{{}}}, zone: wrong, words: "Mars/Olympus"},
		"a zone nothing goes by":   {w: schedule.Availability{Mode: schedule.Always}, zone: wrong, ok: true, warn: true, words: "Mars/Olympus"},
		"no hours and no problems": {ok: true, words: "always"},
	} {
		v := c.w.At(time.Unix(1e9, 0).UTC(), nil, schedule.Facts{})
		got := hoursVerdict(c.w, c.damaged, c.zone, v)
		if got.OK != c.ok || got.Warn != c.warn || (got.Fix == "") != (c.ok && !c.warn) || !strings.Contains(got.Detail, c.words) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// An agent whose enrollment was deleted in part goes on: the image that would take its place could not start.
func TestARestartIsRefusedWhereTheNextImageCouldNotStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{})
	r.start()
	must(t, os.Remove(r.home.Group(r.e.Group)+"/group.json"))
	if err := r.door().Restart(t.Context(), 0); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "group.json is gone") {
		t.Errorf("it restarts: %v", err)
	}
	if st, err := r.door().SetOwner(t.Context(), fleet.Paused); err != nil || st.Owner != fleet.Paused {
		t.Errorf("it can be paused all the same: %+v, %v", st, err)
	}
}
