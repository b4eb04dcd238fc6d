package schedule

import (
	"fmt"
	"strings"
	"time"
)

// When is a moment to come as people in the zone of now read it: "22:00" within a day, "Mon 22:00"
// within a week, and else with the date.
func When(t, now time.Time) string {
	t = t.In(now.Location())
	switch d := t.Sub(now); {
	case d < 24*time.Hour:
		return t.Format("15:04")
	case d < 7*24*time.Hour:
		return t.Format("Mon 15:04")
	}
	return t.Format("2 Jan 15:04")
}

// String is the availability in words: "always", "22:00–07:00, on mains power only".
func (a Availability) String() string {
	words := []string{"always"}
	switch a.Mode {
	case Always, "":
	case Night, Window:
		words = words[:0]
		for _, s := range a.spans() {
			words = append(words, s.String())
		}
	default:
		words[0] = string(a.Mode)
	}
	if a.OnMains {
		words = append(words, "on mains power only")
	}
	if a.IdleMinutes > 0 {
		words = append(words, fmt.Sprintf("when nobody used it for %d min", a.IdleMinutes))
	}
	for _, b := range a.Bandwidth {
		if b.BytesPerSecond == 0 {
			words = append(words, "no downloads "+b.Span.String())
		} else {
			words = append(words, "downloads at most "+b.limit()+" "+b.Span.String())
		}
	}
	return strings.Join(words, ", ")
}

func (b Bandwidth) limit() string {
	switch n := b.BytesPerSecond; {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB/s", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB/s", n>>10)
	default:
		return fmt.Sprintf("%d B/s", n)
	}
}

// String is a limit in words.
func (b Bandwidth) String() string { return b.limit() + " " + b.Span.String() }
