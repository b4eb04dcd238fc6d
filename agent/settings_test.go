package agent

import (
	"slices"
	"strings"
	"testing"
	"time"

	"interlock.sh/agent/enrollment"
	"interlock.sh/internal/testkit/fakellama"
)

func TestTheGraceIsTheOwnersSetting(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]time.Duration{
		"": drainWithin, "30s": 30 * time.Second, "1h": time.Hour, // taken
		"0s": drainWithin, "-1m": drainWithin, "2h": drainWithin, "soon": drainWithin, "120": drainWithin, // not, and said
	} {
		env := enrollment.Env{enrollment.EnvLeaveGrace: set}
		got, problem := leaveGrace(env)
		refused := set != "" && want == drainWithin
		if got != want || refused != strings.Contains(problem, `INTERLOCK_LEAVE_GRACE in worker.env is "`+set+`"`) {
			t.Errorf("%q is %v: %q", set, got, problem)
		}
		if c := checkSettings(env); refused != (len(c) == 1 && c[0].OK && c[0].Warn && c[0].Fix != "") {
			t.Errorf("%q in doctor: %+v", set, c)
		}
	}
}

func TestASettingThatDoesNotHoldIsShownEverywhere(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{})
	r.set(enrollment.EnvLeaveGrace, "2 minutes")
	r.start()
	r.awaitMachine("idle")
	m, err := r.plane.Owner.Machine(t.Context(), r.e.Machine)
	if err != nil || !slices.ContainsFunc(m.Machine.Warnings, func(w string) bool { return strings.Contains(w, `"2 minutes"`) }) {
		t.Errorf("the fleet sees the warnings %q, %v", m.Machine.Warnings, err)
	}
	checks, err := r.door().Doctor(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if c := find(t, checks, "settings"); !c.Warn || !strings.Contains(c.Detail, `"2 minutes"`) {
		t.Errorf("doctor says %+v", c)
	}
}
