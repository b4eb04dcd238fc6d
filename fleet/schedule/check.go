package schedule

import (
	"fmt"
	"slices"

	"interlock.sh/fault"
)

// The limits of an Availability.
const (
	MaxSpans       = 64
	MaxIdleMinutes = 24 * 60
)

// Check refuses what cannot be meant: fault.Invalid, with the field, the rule, the value and the way out.
func (a Availability) Check() error {
	switch a.Mode {
	case Always, Night, Paused, "":
	case Window:
		if len(a.Windows) == 0 {
			return fault.New(fault.Invalid, "mode window names no window").WithField("windows").
				WithHint("give one with a start and an end, such as 22:00 and 07:00, or choose always, night or paused")
		}
	default:
		return fault.New(fault.Invalid, "mode %q is none of always, night, window, paused", a.Mode).WithField("mode").WithHint("choose one of these")
	}
	if a.IdleMinutes < 0 || a.IdleMinutes > MaxIdleMinutes {
		return fault.New(fault.Invalid, "idleMinutes is %d; it goes from 0, which is off, to %d", a.IdleMinutes, MaxIdleMinutes).
			WithField("idleMinutes").WithHint("10 is usual")
	}
	if err := checkSpans("windows", "window", a.Windows); err != nil {
		return err
	}
	limits := make([]Span, len(a.Bandwidth))
	for i, b := range a.Bandwidth {
		limits[i] = b.Span
		if b.BytesPerSecond < 0 {
			return fault.New(fault.Invalid, "the limit of %s is %d bytes a second; it cannot be negative", b.Span, b.BytesPerSecond).
				WithField(fmt.Sprintf("bandwidth[%d].bytesPerSecond", i)).WithHint("0 stops downloads in that time")
		}
	}
	return checkSpans("bandwidth", "limit", limits)
}

func checkSpans(field, what string, spans []Span) error {
	if len(spans) > MaxSpans {
		return fault.New(fault.Invalid, "there are %d %ss; the limit is %d", len(spans), what, MaxSpans).WithField(field).
			WithHint("one span may name several days")
	}
	for i, s := range spans {
		if err := s.check(fmt.Sprintf("%s[%d]", field, i)); err != nil {
			return err
		}
	}
	return disjoint(field, what, spans)
}

// check refuses one span; field is where it stands.
func (s Span) check(field string) error {
	for _, end := range [...]struct{ name, value string }{{"start", s.Start}, {"end", s.End}} {
		if m, ok := minutes(end.value); !ok || end.name == "start" && m == dayMinutes {
			return fault.New(fault.Invalid, "the %s %q is no time of day", end.name, end.value).WithField(field + "." + end.name).
				WithHint("write hours and minutes as in 07:30; the last end of a day is 24:00")
		}
	}
	for i, d := range s.Days {
		if _, ok := weekday(d); !ok {
			return unknownDay(d).WithField(field + ".days")
		}
		if slices.Contains(s.Days[:i], d) {
			return fault.New(fault.Invalid, "the day %s is named twice", d).WithField(field + ".days").WithHint("name it once")
		}
	}
	if s.Start == s.End {
		return fault.New(fault.Invalid, "the span from %s to %s has 0 minutes", s.Start, s.End).WithField(field + ".end").
			WithHint("a whole day is 00:00 to 24:00; for all of the time choose always")
	}
	return nil
}

// disjoint refuses spans that share a minute of the week.
func disjoint(field, what string, spans []Span) error {
	var taken [weekMinutes]int8 // the number of the span that has the minute, from 1
	for i, s := range spans {
		start, end, _ := s.bounds()
		for d := range dayNames {
			if len(s.Days) > 0 && !slices.Contains(s.Days, dayNames[d]) {
				continue
			}
			for m := start; m < end; m++ {
				at := (d*dayMinutes + m) % weekMinutes
				if other := taken[at]; other != 0 {
					return fault.New(fault.Invalid, "%s %s and %s %s overlap from %s", what, spans[other-1], what, s, weekMinute(at)).
						WithField(fmt.Sprintf("%s[%d]", field, i)).WithHint("end the one where the other begins, or make them one")
				}
				taken[at] = int8(i + 1)
			}
		}
	}
	return nil
}
