package localapi_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"interlock.sh/agent/localapi"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
)

func TestTheHoursAndAPauseForAWhileArriveAsTheyWereMeant(t *testing.T) {
	a := &stub{}
	c, ctx := localapi.Dial(listen(t, localapi.Handler(a))), t.Context()
	want := schedule.Availability{
		Mode: schedule.Window, Windows: []schedule.Span{{Start: "22:00", End: "07:00", Days: []string{"mon"}}}, OnMains: true, IdleMinutes: 10,
		Bandwidth: []schedule.Bandwidth{{Span: schedule.Span{Start: "09:00", End: "17:00"}, BytesPerSecond: 1 << 20}},
	}
	if _, err := c.SetAvailability(ctx, want); err != nil || cmp.Diff(want, a.hours) != "" {
		t.Errorf("the hours: %v %s", err, cmp.Diff(want, a.hours))
	}
	for d, got := range map[time.Duration]time.Duration{time.Hour: time.Hour, 90 * time.Second: 2 * time.Minute, 0: 0} {
		if _, err := c.Pause(ctx, d); err != nil || a.pause != got || a.mode != fleet.Paused {
			t.Errorf("a pause for %v became %v, %v", d, a.pause, err)
		}
	}
}

func TestHoursThatCannotBeMeantAreRefusedAtTheDoor(t *testing.T) {
	a := &stub{}
	h := localapi.Handler(a)
	for _, c := range []struct {
		name, method, path, body string
		code                     fault.Code
		words                    string
	}{
		{"no JSON", http.MethodPut, "/availability", "{", fault.Malformed, "cannot be read"},
		{"nothing", http.MethodPut, "/availability", "", fault.Malformed, "cannot be read"},
		{"a limit of a newer version", http.MethodPut, "/availability", `{"mode":"always","moonMinutes":3}`, fault.Malformed, `unknown field "moonMinutes"`},
		{"another type", http.MethodPut, "/availability", `{"mode":7}`, fault.Malformed, "cannot be read"},
		{"endless", http.MethodPut, "/availability", `{"mode":"` + strings.Repeat("x", 70<<10) + `"}`, fault.TooLarge, "more than 65536 bytes"},
		{"0 minutes", http.MethodPost, "/pause?minutes=0", "", fault.Invalid, `minutes is "0"`},
		{"a negative pause", http.MethodPost, "/pause?minutes=-5", "", fault.Invalid, "from 1 to 10080 minutes"},
		{"words", http.MethodPost, "/pause?minutes=an+hour", "", fault.Invalid, `minutes is "an hour"`},
		{"weeks", http.MethodPost, "/pause?minutes=99999", "", fault.Invalid, "from 1 to 10080 minutes"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader(c.body)))
		if w.Code != c.code.Status() || !strings.Contains(w.Body.String(), string(c.code)) || !strings.Contains(strings.ReplaceAll(w.Body.String(), `\"`, `"`), c.words) || !strings.Contains(w.Body.String(), `"hint"`) {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
	}
	if a.asked {
		t.Error("what was refused reached the agent")
	}
}

func TestAnAgentFromBeforeHoursIsKnownByItsStatus(t *testing.T) {
	old := http.NewServeMux()
	old.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"group":"g","words":"ready","owner":"active"}`))
	})
	old.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error":{"code":"NOT_FOUND","message":"the agent has no PUT /availability"}}`))
	})
	c := localapi.Dial(listen(t, old))
	if st, err := c.Status(t.Context()); err != nil || st.KnowsHours() {
		t.Errorf("%+v, %v", st, err)
	}
	if _, err := c.SetAvailability(t.Context(), schedule.Availability{}); !errors.Is(err, fault.NotFound) {
		t.Errorf("it took hours: %v", err)
	}
}

func (s *stub) Pause(d time.Duration) error {
	s.mode, s.pause, s.asked = fleet.Paused, d, true
	return s.refuse
}

func (s *stub) SetAvailability(_ context.Context, a schedule.Availability) error {
	s.hours, s.asked = a, true
	return s.refuse
}

func (s *stub) Restart(within time.Duration) error {
	s.within = within
	return s.refuse
}

func TestARestartAndItsBoundArrive(t *testing.T) {
	a := &stub{within: -1}
	h := localapi.Handler(a)
	c := localapi.Dial(listen(t, h))
	for _, within := range []time.Duration{0, 30 * time.Minute} {
		if err := c.Restart(t.Context(), within); err != nil || a.within != within {
			t.Errorf("within %v became %v, %v", within, a.within, err)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/restart?within=soon", http.NoBody))
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "no length of time") {
		t.Errorf("soon: %d %s", w.Code, w.Body)
	}
}
