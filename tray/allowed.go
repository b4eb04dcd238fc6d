package tray

import (
	"fmt"
	"slices"
	"strings"

	"interlock.sh/fleet/schedule"
)

// week is the days as a span names them, and as they are shown.
var week = []struct{ name, shown string }{
	{"mon", "Mon"}, {"tue", "Tue"}, {"wed", "Wed"}, {"thu", "Thu"}, {"fri", "Fri"}, {"sat", "Sat"}, {"sun", "Sun"},
}

// WindowWords are the owner's own hours, "" when there are none.
func WindowWords(a schedule.Availability) string {
	var out []string
	for _, w := range a.Windows {
		out = append(out, spanWords(w))
	}
	return strings.Join(out, "; ")
}

// AllowedWords are the owner's hours and limits where they are more than one of the three choices says, else "".
func AllowedWords(a schedule.Availability) string {
	var out []string
	if hours := WindowWords(a); a.Mode == schedule.Window && hours != "" {
		out = append(out, hours)
	}
	if a.OnMains {
		out = append(out, "on mains power only")
	}
	if a.IdleMinutes > 0 {
		out = append(out, fmt.Sprintf("when nobody used it for %d min", a.IdleMinutes))
	}
	for _, b := range a.Bandwidth {
		what := "no downloads "
		if b.BytesPerSecond > 0 {
			what = fmt.Sprintf("downloads at most %.3g MiB/s ", float64(b.BytesPerSecond)/(1<<20))
		}
		out = append(out, what+spanWords(b.Span))
	}
	return strings.Join(out, "; ")
}

// spanWords is a part of the week: "Mon–Fri 20:00–06:30".
func spanWords(s schedule.Span) string {
	hours := s.Start + "–" + s.End
	if s.Start == "00:00" && s.End == "24:00" {
		hours = "all day"
	}
	if d := dayWords(s.Days); d != "" {
		return d + " " + hours
	}
	return hours
}

// dayWords names days, three and more in a row by the first and the last; "" for every day.
func dayWords(days []string) string {
	var out []string
	for i := 0; i < len(week); {
		n := i
		for n < len(week) && slices.Contains(days, week[n].name) {
			n++
		}
		switch {
		case n-i == len(week):
			return ""
		case n-i > 2:
			out = append(out, week[i].shown+"–"+week[n-1].shown)
		default:
			for _, d := range week[i:n] {
				out = append(out, d.shown)
			}
		}
		i = max(n, i+1)
	}
	return strings.Join(out, ", ")
}
