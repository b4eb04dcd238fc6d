package schedule

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the tests are about zones, wherever they run

	"interlock.sh/fault"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	l, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// at reads "2026-03-29 01:59" in a zone.
func at(t testing.TB, where, text string) time.Time {
	t.Helper()
	v, err := time.ParseInLocation("2006-01-02 15:04", text, zone(t, where))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestNightInWords(t *testing.T) {
	night := Availability{Mode: Night}
	for _, c := range []struct {
		now, why, next string
		open           bool
	}{
		{"2026-06-10 21:59", "until 22:00", "2026-06-10 22:00", false},
		{"2026-06-10 22:00", "", "2026-06-11 07:00", true},
		{"2026-06-11 00:00", "", "2026-06-11 07:00", true},
		{"2026-06-11 06:59", "", "2026-06-11 07:00", true},
		{"2026-06-11 07:00", "until 22:00", "2026-06-11 22:00", false},
	} {
		v := night.At(at(t, "Europe/Berlin", c.now), nil, Facts{})
		if v.Open != c.open || v.Why != c.why || v.Next == nil || v.Next.Format("2006-01-02 15:04") != c.next {
			t.Errorf("%s: %+v", c.now, v)
		}
	}
}

func TestHoldsAndModes(t *testing.T) {
	now := at(t, "Europe/Berlin", "2026-06-10 13:05") // a Wednesday
	in := func(d time.Duration) *time.Time { u := now.Add(d); return &u }
	weekend := Availability{Mode: Window, Windows: []Span{{Start: "00:00", End: "24:00", Days: []string{"sat", "sun"}}}}
	for _, c := range []struct {
		name string
		a    Availability
		hold *Hold
		want Verdict
	}{
		{"nothing said", Availability{}, nil, Verdict{Open: true}},
		{"always", Availability{Mode: Always}, nil, Verdict{Open: true}},
		{"paused", Availability{Mode: Paused}, nil, Verdict{}},
		{"a hold for an hour", Availability{}, &Hold{Until: in(time.Hour)}, Verdict{Why: "until 14:05", Next: in(time.Hour)}},
		{"a hold that is over", Availability{}, &Hold{Until: in(0)}, Verdict{Open: true}},
		{"a hold without end", Availability{Mode: Night}, &Hold{}, Verdict{}},
		{"a hold that ends outside the hours", Availability{Mode: Night}, &Hold{Until: in(time.Hour)}, Verdict{Why: "until 22:00", Next: new(at(t, "Europe/Berlin", "2026-06-10 22:00"))}},
		{"a hold over the hours' begin", Availability{Mode: Night}, &Hold{Until: in(10 * time.Hour)}, Verdict{Why: "until 23:05", Next: in(10 * time.Hour)}},
		{"a hold when paused", Availability{Mode: Paused}, &Hold{Until: in(time.Hour)}, Verdict{}},
		{"a hold that drains", Availability{}, &Hold{Drain: true, Until: in(time.Hour)}, Verdict{Drain: true, Why: "until 14:05", Next: in(time.Hour)}},
		{"a hold that drains outside the hours", Availability{Mode: Night}, &Hold{Drain: true}, Verdict{}},
		{"days away", weekend, nil, Verdict{Why: "until Sat 00:00", Next: new(at(t, "Europe/Berlin", "2026-06-13 00:00"))}},
		{"over a week away", Availability{}, &Hold{Until: in(9 * 24 * time.Hour)}, Verdict{Why: "until 19 Jun 13:05", Next: in(9 * 24 * time.Hour)}},
		{"a mode of a newer version", Availability{Mode: "moonlight"}, nil, Verdict{}},
	} {
		same(t, c.name, c.a.At(now, c.hold, Facts{}), c.want)
	}
}

func same(t *testing.T, name string, got, want Verdict) {
	t.Helper()
	if got.Open != want.Open || got.Drain != want.Drain || got.Why != want.Why || (got.Next == nil) != (want.Next == nil) ||
		got.Next != nil && !got.Next.Equal(*want.Next) || !slices.Equal(got.Unsure, want.Unsure) {
		t.Errorf("%s: %+v, want %+v", name, got, want)
	}
}

func TestWhatIsMeasured(t *testing.T) {
	now := at(t, "Europe/Berlin", "2026-06-10 23:00")
	both := Availability{Mode: Night, OnMains: true, IdleMinutes: 10}
	morning := at(t, "Europe/Berlin", "2026-06-11 07:00")
	for _, c := range []struct {
		name string
		f    Facts
		want Verdict
	}{
		{"all is well", Facts{new(true), new(10 * time.Minute)}, Verdict{Open: true, Next: &morning}},
		{"on battery", Facts{new(false), new(time.Hour)}, Verdict{Why: "on battery"}},
		{"in use", Facts{new(true), new(10*time.Minute - 1)}, Verdict{Why: "in use"}},
		{"unknown forbids nothing", Facts{}, Verdict{Open: true, Next: &morning, Unsure: []string{"whether it runs on mains power is not known", "whether somebody uses it is not known"}}},
		{"one unknown", Facts{Mains: new(false)}, Verdict{Why: "on battery", Unsure: []string{"whether somebody uses it is not known"}}},
	} {
		same(t, c.name, both.At(now, nil, c.f), c.want)
	}
	same(t, "the hours are the first reason", both.At(now.Add(-2*time.Hour), nil, Facts{Mains: new(false), Idle: new(time.Hour)}), Verdict{Why: "until 22:00", Next: new(at(t, "Europe/Berlin", "2026-06-10 22:00"))})
	same(t, "no draining on battery", both.At(now, &Hold{Drain: true}, Facts{Mains: new(false), Idle: new(time.Hour)}), Verdict{})
	same(t, "off ceilings are not asked", Availability{}.At(now, nil, Facts{Mains: new(false), Idle: new(time.Duration(0))}), Verdict{Open: true})
}

func TestRate(t *testing.T) {
	a := Availability{Bandwidth: []Bandwidth{
		{Span{Start: "09:00", End: "17:00", Days: []string{"wed"}}, 1 << 20}, {Span{Start: "17:00", End: "18:00"}, 0},
	}}
	for text, want := range map[string]int64{
		"2026-06-10 08:59": -1, "2026-06-10 09:00": 1 << 20, "2026-06-10 16:59": 1 << 20, "2026-06-10 17:00": 0, "2026-06-10 18:00": -1, "2026-06-11 09:00": -1,
	} {
		got, limited := a.Rate(at(t, "Europe/Berlin", text))
		if limited != (want >= 0) || limited && got != want {
			t.Errorf("%s: %d, %v", text, got, limited)
		}
	}
}

func TestCheckRefusesInWords(t *testing.T) {
	window := func(spans ...Span) Availability { return Availability{Mode: Window, Windows: spans} }
	many := make([]Span, MaxSpans+1)
	for _, c := range []struct {
		name         string
		a            Availability
		field, words string
	}{
		{"a mode", Availability{Mode: "dusk"}, "mode", `"dusk" is none of always, night, window, paused`},
		{"no window", window(), "windows", "names no window"},
		{"0 minutes", window(Span{Start: "22:00", End: "22:00"}), "windows[0].end", "22:00 to 22:00 has 0 minutes"},
		{"0 minutes at midnight", window(Span{Start: "00:00", End: "00:00"}), "windows[0].end", "0 minutes"},
		{"no hour", window(Span{Start: "24:00", End: "07:00"}), "windows[0].start", `"24:00" is no time`},
		{"hour 25", window(Span{Start: "22:00", End: "25:00"}), "windows[0].end", `"25:00" is no time`},
		{"minute 60", window(Span{Start: "22:60", End: "07:00"}), "windows[0].start", `"22:60"`},
		{"beyond the day", window(Span{Start: "22:00", End: "24:01"}), "windows[0].end", `"24:01"`},
		{"one digit", window(Span{Start: "9:00", End: "17:00"}), "windows[0].start", `"9:00"`},
		{"a sign", window(Span{Start: "+9:00", End: "17:00"}), "windows[0].start", `"+9:00"`},
		{"other digits", window(Span{Start: "٢٢:٠٠", End: "17:00"}), "windows[0].start", "no time of day"},
		{"empty", window(Span{}), "windows[0].start", `the start "" is no time`},
		{"a day", window(Span{Start: "22:00", End: "07:00", Days: []string{"Mon"}}), "windows[0].days", `"Mon" is no day`},
		{"a day twice", window(Span{Start: "22:00", End: "07:00", Days: []string{"mon", "tue", "mon"}}), "windows[0].days", "mon is named twice"},
		{"overlap", window(Span{Start: "20:00", End: "23:00"}, Span{Start: "22:00", End: "07:00", Days: []string{"tue"}}), "windows[1]", "overlap from Tue 22:00"},
		{"overlap over midnight", window(Span{Start: "22:00", End: "07:00", Days: []string{"sat"}}, Span{Start: "06:00", End: "08:00", Days: []string{"sun"}}), "windows[1]", "overlap from Sun 06:00"},
		{"too many", window(many...), "windows", "65 windows; the limit is 64"},
		{"idle", Availability{IdleMinutes: -1}, "idleMinutes", "is -1; it goes from 0"},
		{"idle for days", Availability{IdleMinutes: 1441}, "idleMinutes", "to 1440"},
		{"bandwidth", Availability{Bandwidth: []Bandwidth{{Span{Start: "09:00", End: "17:00"}, -1}}}, "bandwidth[0].bytesPerSecond", "cannot be negative"},
		{"bandwidth overlaps", Availability{Bandwidth: []Bandwidth{{Span{Start: "09:00", End: "17:00"}, 1}, {Span{Start: "16:00", End: "18:00"}, 2}}}, "bandwidth[1]", "limit 09:00–17:00 and limit 16:00–18:00 overlap"},
		{"windows kept beside another mode", Availability{Mode: Always, Windows: []Span{{Start: "x"}}}, "windows[0].start", "no time"},
	} {
		err := c.a.Check()
		if e := fault.Of(err); !errors.Is(err, fault.Invalid) || e.Field != c.field || !strings.Contains(e.Message, c.words) || e.Hint == "" {
			t.Errorf("%s: %v in %q", c.name, err, e.Field)
		}
	}
	for _, a := range []Availability{
		{}, {Mode: Night, Windows: []Span{{Start: "08:00", End: "09:00"}}}, window(Span{Start: "00:00", End: "24:00"}),
		window(Span{Start: "22:00", End: "00:00"}, Span{Start: "00:00", End: "07:00"}),
		window(Span{Start: "22:00", End: "07:00", Days: []string{"fri"}}, Span{Start: "22:00", End: "07:00", Days: []string{"sat"}}),
	} {
		if err := a.Check(); err != nil {
			t.Errorf("%+v: %v", a, err)
		}
	}
}

func TestSpansAsPeopleTypeThem(t *testing.T) {
	for text, want := range map[string]string{
		"22:00-07:00": "22:00–07:00", "mon,tue 22:00-07:00": "22:00–07:00 on mon, tue", "FRI-MON 08:00-24:00": "08:00–24:00 on fri, sat, sun, mon",
		"mon-sun 01:00-02:00": "01:00–02:00", "  sun   01:00-02:00 ": "01:00–02:00 on sun",
	} {
		if s, err := ParseSpan(text); err != nil || s.String() != want {
			t.Errorf("%q: %s, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "22:00", "22-07", "22:00-22:00", "moonday 22:00-07:00", "mon,mon 22:00-07:00", "a b c", "mon- 22:00-07:00", ",mon 22:00-07:00"} {
		if s, err := ParseSpan(text); !errors.Is(err, fault.Invalid) || fault.Of(err).Hint == "" {
			t.Errorf("%q was read as %s: %v", text, s, err)
		}
	}
}

func TestAnAvailabilityInWords(t *testing.T) {
	a := Availability{
		Mode: Window, Windows: []Span{{Start: "22:00", End: "07:00", Days: []string{"mon"}}}, OnMains: true, IdleMinutes: 10,
		Bandwidth: []Bandwidth{{Span{Start: "09:00", End: "17:00"}, 1 << 20}, {Span{Start: "17:00", End: "18:00"}, 0}, {Span{Start: "18:00", End: "19:00"}, 1000}},
	}
	want := "22:00–07:00 on mon, on mains power only, when nobody used it for 10 min, downloads at most 1 MiB/s 09:00–17:00, no downloads 17:00–18:00, downloads at most 1000 B/s 18:00–19:00"
	if got := a.String(); got != want {
		t.Errorf("%s", got)
	}
	for mode, want := range map[Mode]string{"": "always", Always: "always", Night: "22:00–07:00", Paused: "paused"} {
		if got := (Availability{Mode: mode}).String(); got != want {
			t.Errorf("%s: %s", mode, got)
		}
	}
}
