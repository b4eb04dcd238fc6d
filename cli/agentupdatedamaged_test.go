package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/localapi"
	"interlock.sh/fault"
	"interlock.sh/updater"
)

// runner is an agent that runs a program, and does nothing else.
type runner struct {
	*keeper
	program string
}

func (r runner) Status(ctx context.Context) localapi.Status {
	st := r.keeper.Status(ctx)
	st.Program = r.program
	return st
}

// A machine whose only enrollment is damaged is not one without any: what is wrong is named.
func TestUpdatesOfADamagedEnrollmentSayWhatIsWrong(t *testing.T) {
	for _, file := range []string{"group.json", filepath.Join("roles", "client", "role.json")} {
		l := newLab(t)
		if err := os.Remove(filepath.Join(l.home.Group(l.e.Group), file)); err != nil {
			t.Fatal(err)
		}
		code, out, errs := l.interlock("agent", "update", "--check")
		if code == ExitOK || !strings.Contains(errs, filepath.Base(file)+" is gone") || strings.Contains(out+errs, "not enrolled") {
			t.Errorf("%d %s%s", code, out, errs)
		}
		r := updater.LastReport(filepath.Join(string(l.home), "app"))
		if r == nil || !strings.Contains(r.Why, filepath.Base(file)+" is gone") {
			t.Errorf("reported %+v", r)
		}
	}
}

// An agent that runs with a damaged enrollment could not go on as any version: no version is to be blamed for it,
// and none is good without it. One that does not run, or runs elsewhere, holds nothing up.
func TestOnlyAnAgentThatCouldNotBeStartedAgainHoldsUpdatesUp(t *testing.T) {
	for name, c := range map[string]struct {
		program string // of the agent, in the home; "" for none that runs
		holds   bool
	}{
		"it runs out of the folder":    {"app/current/interlock", true},
		"it runs out of another":       {"app-0123abcd/current/interlock", false},
		"it runs a program of its own": {"elsewhere", false},
		"it does not run":              {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			if c.program != "" {
				l.serve(localapi.Handler(runner{&keeper{group: l.e.Group}, filepath.Join(string(l.home), c.program)}))
			}
			why := fault.New(fault.Invalid, "group.json is gone")
			all := &agents{
				app: filepath.Join(string(l.home), "app"), log: slog.New(slog.DiscardHandler),
				all: []enrollment.Enrollment{{Home: l.home, Group: "good", Role: "client"}}, damaged: []enrollment.Damaged{{Enrollment: l.e, Why: why}},
			}
			got, err := all.Subjects(t.Context())
			if c.holds != errors.Is(err, fault.Conflict) || c.holds && !strings.Contains(err.Error(), "group.json is gone") || !c.holds && (err != nil || len(got) != 1) {
				t.Errorf("%d subjects, %v", len(got), err)
			}
		})
	}
}
