package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// changes are weeks in which a zone's wall clock jumps.
var changes = []struct{ zone, around, what string }{
	{"Europe/Berlin", "2026-03-29", "an hour is skipped"},
	{"Europe/Berlin", "2026-10-25", "an hour comes twice"},
	{"America/New_York", "2026-03-08", "an hour is skipped"},
	{"America/New_York", "2026-11-01", "an hour comes twice"},
	{"Australia/Lord_Howe", "2026-10-04", "half an hour is skipped"},
	{"Australia/Lord_Howe", "2026-04-05", "half an hour comes twice"},
	{"America/Sao_Paulo", "2018-11-04", "midnight does not exist"},
	{"America/Sao_Paulo", "2018-02-18", "the hour before midnight comes twice"},
	{"Pacific/Apia", "2011-12-30", "a day does not exist"},
	{"Asia/Kathmandu", "2026-01-04", "nothing: an odd offset"},
	{"America/St_Johns", "2006-04-02", "an hour is skipped at one past midnight"},
}

// slow is the rule at its plainest: the label that the wall clock shows, compared as text.
func slow(s Span, now time.Time) bool {
	label, day := now.Format("15:04"), strings.ToLower(now.Format("Mon"))
	yesterday := map[string]string{"mon": "sun", "tue": "mon", "wed": "tue", "thu": "wed", "fri": "thu", "sat": "fri", "sun": "sat"}[day]
	on := func(d string) bool { return len(s.Days) == 0 || slices.Contains(s.Days, d) }
	if s.Start < s.End {
		return on(day) && label >= s.Start && label < s.End
	}
	return on(day) && label >= s.Start || on(yesterday) && label < s.End
}

func spans(zoneHour bool) *rapid.Generator[Span] {
	return rapid.Custom(func(t *rapid.T) Span {
		top := dayMinutes - 1
		if zoneHour {
			top = 3*60 + 30 // where clocks change
		}
		start := rapid.IntRange(0, top).Draw(t, "start")
		end := rapid.IntRange(0, top).Filter(func(m int) bool { return m != start }).Draw(t, "end")
		clock := func(m int) string { return fmt.Sprintf("%02d:%02d", m/60, m%60) }
		return Span{Start: clock(start), End: clock(end), Days: rapid.SliceOfNDistinct(rapid.SampledFrom(dayNames[:]), 0, 7, rapid.ID[string]).Draw(t, "days")}
	})
}

// TestAgainstAMinuteWalk compares the answer, and the next change, with a walk over every minute of the
// weeks around each change of a clock.
func TestAgainstAMinuteWalk(t *testing.T) {
	for _, c := range changes {
		t.Run(c.zone+" "+c.around, func(t *testing.T) {
			day := at(t, c.zone, c.around+" 12:00")
			rapid.Check(t, func(rt *rapid.T) {
				a := Availability{Mode: Window, Windows: rapid.SliceOfN(spans(rapid.Bool().Draw(rt, "near")), 1, 3).Draw(rt, "windows")}
				now := day.Add(time.Duration(rapid.IntRange(-3*dayMinutes, 2*dayMinutes).Draw(rt, "from")) * time.Minute)
				inside := func(m time.Time) bool {
					return slices.ContainsFunc(a.Windows, func(s Span) bool { return slow(s, m) })
				}
				sub := now.Add(time.Duration(rapid.IntRange(0, 59999).Draw(rt, "ms")) * time.Millisecond)
				v := a.At(sub, nil, Facts{})
				if v.Open != inside(now) {
					rt.Fatalf("at %s it is %v", sub.Format("Mon 15:04:05 MST"), v.Open)
				}
				for m := now.Add(time.Minute); m.Before(now.Add(ahead)); m = m.Add(time.Minute) {
					if inside(m) == v.Open {
						continue
					}
					if v.Next == nil || !v.Next.Equal(m) {
						rt.Fatalf("from %s the next change is %s, the answer was %v", sub, m, v.Next)
					}
					return
				}
				if v.Next != nil && v.Next.Before(now.Add(ahead)) {
					rt.Fatalf("from %s nothing changes, the answer was %v", sub, v.Next)
				}
			})
		})
	}
}

// TestAnHourThatIsSkippedOrRepeatedStillOpensAndCloses is the fault of schedulers that keep a list of
// instants: the instant that the clock skips never comes.
func TestAnHourThatIsSkippedOrRepeatedStillOpensAndCloses(t *testing.T) {
	for _, c := range []struct{ name, zone, from, start, end, want string }{
		{"it would open in the hour that is skipped", "Europe/Berlin", "2026-03-29 00:00", "02:30", "05:00", "03:00+02 open, 05:00+02 shut"},
		{"it would close in it", "Europe/Berlin", "2026-03-29 00:00", "00:30", "02:30", "00:30+01 open, 03:00+02 shut"},
		{"it lies within it: that night has none", "Europe/Berlin", "2026-03-29 00:00", "02:10", "02:50", ""},
		{"it opens in the hour that comes twice", "Europe/Berlin", "2026-10-25 00:00", "02:30", "05:00", "02:30+02 open, 02:00+01 shut, 02:30+01 open, 05:00+01 shut"},
		{"it closes in it", "Europe/Berlin", "2026-10-25 00:00", "00:30", "02:30", "00:30+02 open, 02:30+02 shut, 02:00+01 open, 02:30+01 shut"},
		{"it closes at midnight, which is skipped", "America/Sao_Paulo", "2018-11-03 20:00", "22:00", "00:00", "22:00-03 open, 01:00-02 shut"},
		{"it opens at midnight, which is skipped", "America/Sao_Paulo", "2018-11-03 20:00", "00:00", "03:00", "01:00-02 open, 03:00-02 shut"},
		{"half an hour is skipped", "Australia/Lord_Howe", "2026-10-04 00:00", "02:15", "02:45", "02:30+11 open, 02:45+11 shut"},
		{"a night over a day that does not exist", "Pacific/Apia", "2011-12-29 12:00", "22:00", "07:00", "22:00-10 open, 07:00+14 shut"},
	} {
		a := Availability{Mode: Window, Windows: []Span{{Start: c.start, End: c.end}}}
		now, end := at(t, c.zone, c.from), at(t, c.zone, c.from).Add(21*time.Hour)
		var got []string
		for {
			v := a.At(now, nil, Facts{})
			if v.Next == nil || !v.Next.Before(end) {
				break
			}
			now = *v.Next
			word := "shut"
			if a.At(now, nil, Facts{}).Open {
				word = "open"
			}
			got = append(got, now.Format("15:04-07 ")+word)
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s", c.name, text)
		}
	}
}

func TestAnotherZoneIsAnotherAnswer(t *testing.T) {
	now := at(t, "Europe/Berlin", "2026-06-10 23:00")
	night := Availability{Mode: Night}
	if !night.At(now, nil, Facts{}).Open || night.At(now.In(zone(t, "America/New_York")), nil, Facts{}).Open {
		t.Error("the hours did not travel with the machine")
	}
	if v := night.At(now.In(zone(t, "America/New_York")), nil, Facts{}); v.Why != "until 22:00" {
		t.Errorf("in New York: %q", v.Why)
	}
}
