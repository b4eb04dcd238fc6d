package power

import (
	"path/filepath"
	"testing"
	"time"

	"interlock.sh/internal/testkit/logind"
)

func TestTheLeastIdlenessOfAllSeats(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, c := range []struct {
		name  string
		seats []logind.Seat
		want  time.Duration
	}{
		{"no seat", nil, nobody},
		{"a seat without sessions", []logind.Seat{{Name: "seat0", Idle: true}}, nobody},
		{"somebody types", []logind.Seat{{Name: "seat0", Since: ago(time.Hour)}}, 0},
		{"idle for an hour", []logind.Seat{{Name: "seat0", Idle: true, Since: ago(time.Hour)}}, time.Hour},
		{"the other seat is in use", []logind.Seat{{Name: "seat0", Idle: true, Since: ago(time.Hour)}, {Name: "seat1", Since: ago(2 * time.Hour)}}, 0},
		{"the other seat is idle for less", []logind.Seat{{Name: "seat0", Idle: true, Since: ago(time.Hour)}, {Name: "seat1", Idle: true, Since: ago(time.Minute)}}, time.Minute},
		{"a clock that went back", []logind.Seat{{Name: "seat0", Idle: true, Since: now.Add(time.Hour)}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bus := logind.StartBus(t)
			t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", bus.Address)
			bus.Serve(c.seats...)
			got := seats(t.Context(), now)
			if got == nil || (*got-c.want).Abs() > time.Millisecond {
				t.Errorf("%v, want %v", show(got), c.want)
			}
		})
	}
}

func TestIdlenessIsUnknownWithoutALoginManager(t *testing.T) {
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", logind.StartBus(t).Address)
	if got := seats(t.Context(), time.Now()); got != nil {
		t.Errorf("a bus without logind: %v", *got)
	}
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "none"))
	if got := new(Meter).Read(t.Context(), Need{Idle: true}); got.Idle != nil {
		t.Errorf("no bus: %v", *got.Idle)
	}
}
