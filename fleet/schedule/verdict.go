package schedule

import (
	"slices"
	"time"
)

// ahead bounds the search for the next change: a window of one weekday that a clock change swallows
// comes back within it.
const ahead = 15 * 24 * time.Hour

// Active says whether the hold still counts.
func (h *Hold) Active(now time.Time) bool {
	return h != nil && (h.Until == nil || now.Before(*h.Until))
}

// At answers for the moment now, which carries the machine's zone. Hours and hold are looked at first:
// Next is their next change, and nil where only what is measured is in the way.
func (a Availability) At(now time.Time, hold *Hold, f Facts) Verdict {
	v := Verdict{Open: a.opens(now, hold), Unsure: a.unsure(f)}
	if next, ok := a.next(now, hold); ok {
		v.Next = &next
	}
	if v.Open {
		if v.Why = a.forbidden(f); v.Why != "" {
			v.Open, v.Next = false, nil
		}
		return v
	}
	if v.Next != nil {
		v.Why = "until " + When(*v.Next, now)
	}
	v.Drain = hold.Active(now) && hold.Drain && a.inside(now) && a.forbidden(f) == ""
	return v
}

// Rate is the limit of downloads now; limited is false when there is none.
func (a Availability) Rate(now time.Time) (bytesPerSecond int64, limited bool) {
	for _, b := range a.Bandwidth {
		if b.holds(now) {
			return b.BytesPerSecond, true
		}
	}
	return 0, false
}

// opens is what hours and hold say.
func (a Availability) opens(now time.Time, hold *Hold) bool {
	return !hold.Active(now) && a.inside(now)
}

// inside is what the hours say.
func (a Availability) inside(now time.Time) bool {
	switch a.Mode {
	case Always, "":
		return true
	case Paused:
		return false
	}
	return slices.ContainsFunc(a.spans(), func(s Span) bool { return s.holds(now) })
}

// spans are the hours of the mode, where it has some.
func (a Availability) spans() []Span {
	switch a.Mode {
	case Night:
		return []Span{NightSpan()}
	case Window:
		return a.Windows
	}
	return nil
}

// forbidden is the measured ceiling that is in the way, in words.
func (a Availability) forbidden(f Facts) string {
	switch {
	case a.OnMains && f.Mains != nil && !*f.Mains:
		return "on battery"
	case a.IdleMinutes > 0 && f.Idle != nil && *f.Idle < time.Duration(a.IdleMinutes)*time.Minute:
		return "in use"
	}
	return ""
}

// unsure are the ceilings that are set and cannot be measured.
func (a Availability) unsure(f Facts) []string {
	var out []string
	if a.OnMains && f.Mains == nil {
		out = append(out, "whether it runs on mains power is not known")
	}
	if a.IdleMinutes > 0 && f.Idle == nil {
		out = append(out, "whether somebody uses it is not known")
	}
	return out
}

// next is when the clock alone changes what hours and hold say. Between two changes of a zone's offset
// the wall clock runs evenly, so the only moments to look at are the edges of spans, such a change, and
// the end of the hold.
func (a Availability) next(now time.Time, hold *Hold) (time.Time, bool) {
	open, last := a.opens(now, hold), now.Add(ahead)
	for t := now; t.Before(last); {
		t = a.edge(t)
		if hold.Active(now) && hold.Until != nil && hold.Until.After(now) && hold.Until.Before(t) && a.opens(hold.Until.In(now.Location()), hold) != open {
			return hold.Until.In(now.Location()), true
		}
		if a.opens(t, hold) != open {
			return t, true
		}
	}
	return time.Time{}, false
}

// edge is the first moment after t at which what the hours say may change.
func (a Availability) edge(t time.Time) time.Time {
	h, m, s := t.Clock()
	into := time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + time.Duration(s)*time.Second + time.Duration(t.Nanosecond())
	next := t.Add(24*time.Hour - into) // midnight: the day of the week changes
	for _, span := range a.spans() {
		start, end, ok := span.bounds()
		if !ok {
			continue
		}
		for _, edge := range [...]int{start, end % dayMinutes} {
			if d := time.Duration(edge) * time.Minute; d > into && d-into < next.Sub(t) {
				next = t.Add(d - into)
			}
		}
	}
	if _, change := t.ZoneBounds(); !change.IsZero() && change.Before(next) {
		return change
	}
	return next
}
