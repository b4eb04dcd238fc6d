//go:build linux || cgo

package window

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"interlock.sh/fault"
	"interlock.sh/fleet/schedule"
)

// days are the days of a week as a span names them, in the order they are shown.
var days = []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}

// draft is an availability while it is edited: what was typed, which may not be one yet.
type draft struct {
	mode    schedule.Mode
	windows []spanDraft
	onMains bool
	idleOn  bool
	idle    string
	limits  []limitDraft
}

type spanDraft struct {
	start, end string
	days       []string // those that are on
}

type limitDraft struct {
	spanDraft
	rate string // MiB a second
}

const mib = 1 << 20

// newSpan is what "Add" adds.
func newSpan() spanDraft {
	n := schedule.NightSpan()
	return spanDraft{start: n.Start, end: n.End, days: slices.Clone(days)}
}

func draftOf(a schedule.Availability) draft {
	d := draft{mode: a.Mode, onMains: a.OnMains, idleOn: a.IdleMinutes > 0, idle: "10"}
	if d.mode == "" {
		d.mode = schedule.Always
	}
	if d.idleOn {
		d.idle = strconv.Itoa(a.IdleMinutes)
	}
	for _, w := range a.Windows {
		d.windows = append(d.windows, spanDraftOf(w))
	}
	for _, b := range a.Bandwidth {
		d.limits = append(d.limits, limitDraft{spanDraftOf(b.Span), strconv.FormatFloat(float64(b.BytesPerSecond)/mib, 'f', -1, 64)})
	}
	return d
}

func spanDraftOf(s schedule.Span) spanDraft {
	d := spanDraft{start: s.Start, end: s.End, days: slices.Clone(s.Days)}
	if len(d.days) == 0 {
		d.days = slices.Clone(days)
	}
	return d
}

// availability is what the draft says, or the first thing that is wrong with it, with its field.
func (d draft) availability() (schedule.Availability, error) {
	a := schedule.Availability{Mode: d.mode, OnMains: d.onMains}
	var err error
	for i, w := range d.windows {
		s, wrong := w.span("windows[" + strconv.Itoa(i) + "]")
		a.Windows, err = append(a.Windows, s), first(err, wrong)
	}
	if d.idleOn {
		n, wrong := strconv.Atoi(strings.TrimSpace(d.idle))
		if wrong != nil || n < 1 {
			err = first(err, fault.New(fault.Invalid, "%q is no number of minutes", d.idle).WithField("idleMinutes").WithHint("10 is usual"))
		}
		a.IdleMinutes = n
	}
	for i, l := range d.limits {
		field := "bandwidth[" + strconv.Itoa(i) + "]"
		s, wrong := l.span(field)
		err = first(err, wrong)
		rate, wrong := l.bytes(field)
		err = first(err, wrong)
		a.Bandwidth = append(a.Bandwidth, schedule.Bandwidth{Span: s, BytesPerSecond: rate})
	}
	return a, first(err, a.Check())
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func (d spanDraft) span(field string) (schedule.Span, error) {
	s := schedule.Span{Start: strings.TrimSpace(d.start), End: strings.TrimSpace(d.end)}
	if len(d.days) < len(days) { // every day is written as none
		s.Days = slices.Clone(d.days)
	}
	if len(d.days) == 0 {
		return s, fault.New(fault.Invalid, "no day is chosen").WithField(field + ".days").WithHint("choose one, or remove the line")
	}
	return s, nil
}

func (l limitDraft) bytes(field string) (int64, error) {
	v, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(l.rate), ",", "."), 64)
	if err != nil || math.IsNaN(v) || v < 0 || v*mib >= math.MaxInt64 {
		return 0, fault.New(fault.Invalid, "%q is no speed in MiB a second", l.rate).WithField(field + ".bytesPerSecond").WithHint("write it as 2 or 0.5; 0 stops downloads")
	}
	return int64(math.Round(v * mib)), nil
}

// row is where an error belongs: the list and the line of a field such as "windows[1].start".
func row(field string) (list string, index int) {
	list, rest, ok := strings.Cut(field, "[")
	number, _, closed := strings.Cut(rest, "]")
	index, err := strconv.Atoi(number)
	if !ok || !closed || err != nil {
		return field, -1
	}
	return list, index
}
