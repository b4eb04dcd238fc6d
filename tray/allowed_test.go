package tray_test

import (
	"strings"
	"testing"

	"interlock.sh/agent/localapi"
	"interlock.sh/fleet/schedule"
	"interlock.sh/tray"
)

func TestWhatTheOwnerAllowedInWords(t *testing.T) {
	span := func(start, end string, days ...string) schedule.Span {
		return schedule.Span{Start: start, End: end, Days: days}
	}
	for want, a := range map[string]schedule.Availability{
		"":                      {Mode: schedule.Always},
		"Mon–Fri 20:00–06:30":   {Mode: schedule.Window, Windows: []schedule.Span{span("20:00", "06:30", "fri", "mon", "tue", "wed", "thu")}},
		"Mon, Sat, Sun all day": {Mode: schedule.Window, Windows: []schedule.Span{span("00:00", "24:00", "sun", "sat", "mon")}},
		"20:00–21:00; Sun 05:00–06:00": {Mode: schedule.Window, Windows: []schedule.Span{
			span("20:00", "21:00"), span("05:00", "06:00", "sun"),
		}},
		"01:00–02:00":         {Mode: schedule.Window, Windows: []schedule.Span{span("01:00", "02:00", "mon", "tue", "wed", "thu", "fri", "sat", "sun")}},
		"on mains power only": {Mode: schedule.Night, OnMains: true, Windows: []schedule.Span{span("01:00", "02:00")}}, // kept, and not in force
		"when nobody used it for 15 min; no downloads 08:00–18:00; downloads at most 1.5 MiB/s Sat 18:00–20:00": {
			IdleMinutes: 15,
			Bandwidth:   []schedule.Bandwidth{{Span: span("08:00", "18:00")}, {Span: span("18:00", "20:00", "sat"), BytesPerSecond: 3 << 19}},
		},
	} {
		if got := tray.AllowedWords(a); got != want {
			t.Errorf("%+v is %q, want %q", a, got, want)
		}
	}
}

// A name as long as a name may be does not make the menu as wide as the screen, and its end is seen too.
func TestALongNameKeepsItsBeginningItsEndAndItsRole(t *testing.T) {
	for _, name := range []string{strings.Repeat("Größenänderung-", 8), strings.Repeat("x", 40), "short"} {
		a := answering("g-123456", func(s *localapi.Status) {})
		a.GroupName = name
		var label string
		for _, it := range tray.Menu(machine(a), "") {
			if it.Kind == tray.Submenu {
				label = it.Label
				break
			}
		}
		title, _, _ := strings.Cut(label, ": ")
		if n := len([]rune(title)); n > 40 || !strings.HasPrefix(title, name[:5]) || !strings.HasSuffix(title, " (client)") {
			t.Errorf("%q is shown as %q, %d characters", name, title, n)
		}
	}
}
