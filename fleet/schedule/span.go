package schedule

import (
	"fmt"
	"strings"
	"time"

	"interlock.sh/fault"
)

const (
	dayMinutes  = 24 * 60
	weekMinutes = 7 * dayMinutes
)

// dayNames are the days as they are written, in the order of time.Weekday.
var dayNames = [...]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// NightSpan is the span of mode night.
func NightSpan() Span { return Span{Start: "22:00", End: "07:00"} }

// ParseSpan reads a span as people type it: "22:00-07:00", or with days "mon,tue 22:00-07:00" or
// "mon-fri 22:00-07:00". What it gives has passed the checks of a span.
func ParseSpan(text string) (Span, error) {
	fields := strings.Fields(strings.ToLower(text))
	wrong := fault.New(fault.Invalid, "%q is no span of time", text).WithHint("write it as 22:00-07:00, or with days as mon-fri 22:00-07:00")
	if len(fields) < 1 || len(fields) > 2 {
		return Span{}, wrong
	}
	start, end, ok := strings.Cut(fields[len(fields)-1], "-")
	if !ok {
		return Span{}, wrong
	}
	s := Span{Start: start, End: end}
	if len(fields) == 2 {
		var err error
		if s.Days, err = ParseDays(fields[0]); err != nil {
			return Span{}, err
		}
	}
	return s, s.check("span")
}

// ParseDays reads days as people type them: "mon,tue", or a range that may pass the week's end,
// "fri-mon".
func ParseDays(text string) ([]string, error) {
	var out []string
	for part := range strings.SplitSeq(strings.ToLower(text), ",") {
		first, last, ranged := strings.Cut(strings.TrimSpace(part), "-")
		from, ok := weekday(first)
		to, okTo := from, true
		if ranged {
			to, okTo = weekday(last)
		}
		if !ok || !okTo {
			return nil, unknownDay(part).WithField("days")
		}
		for d := from; ; d = (d + 1) % 7 {
			out = append(out, dayNames[d])
			if d == to {
				break
			}
		}
	}
	return out, nil
}

func weekday(name string) (time.Weekday, bool) {
	for d, n := range dayNames {
		if n == name {
			return time.Weekday(d), true
		}
	}
	return 0, false
}

// minutes is a time of day as minutes since midnight.
func minutes(hhmm string) (int, bool) {
	if len(hhmm) != len("00:00") || hhmm[2] != ':' {
		return 0, false
	}
	digits := [...]byte{hhmm[0], hhmm[1], hhmm[3], hhmm[4]}
	for i := range digits {
		if digits[i] -= '0'; digits[i] > 9 {
			return 0, false
		}
	}
	h, m := int(digits[0])*10+int(digits[1]), int(digits[2])*10+int(digits[3])
	return h*60 + m, m < 60 && (h < 24 || h == 24 && m == 0)
}

// bounds are the start and the end in minutes; an end on the next day is beyond dayMinutes. ok is false
// for what Check refuses.
func (s Span) bounds() (start, end int, ok bool) {
	start, okStart := minutes(s.Start)
	end, okEnd := minutes(s.End)
	if end < start {
		end += dayMinutes
	}
	return start, end, okStart && okEnd && start < dayMinutes && start != end
}

// starts says whether it starts on that day of the week.
func (s Span) starts(d time.Weekday) bool {
	if len(s.Days) == 0 {
		return true
	}
	for _, name := range s.Days {
		if name == dayNames[d] {
			return true
		}
	}
	return false
}

// holds says whether the wall clock that t shows is inside. The day before is the one of the calendar,
// also where a zone left that day out.
func (s Span) holds(t time.Time) bool {
	start, end, ok := s.bounds()
	if !ok {
		return false
	}
	h, m, _ := t.Clock()
	now, today := h*60+m, t.Weekday()
	return now >= start && now < end && s.starts(today) ||
		now+dayMinutes < end && s.starts((today+6)%7)
}

// String is the span as people read it: "22:00–07:00", "22:00–07:00 on mon, tue".
func (s Span) String() string {
	text := s.Start + "–" + s.End
	if len(s.Days) > 0 && len(s.Days) < len(dayNames) {
		text += " on " + strings.Join(s.Days, ", ")
	}
	return text
}

func unknownDay(name string) *fault.Error {
	return fault.New(fault.Invalid, "%q is no day", strings.TrimSpace(name)).WithHint("the days are mon, tue, wed, thu, fri, sat and sun")
}

// weekMinute names a minute of the week: "Mon 22:00".
func weekMinute(m int) string {
	m %= weekMinutes
	day := dayNames[m/dayMinutes]
	return fmt.Sprintf("%s %02d:%02d", strings.ToUpper(day[:1])+day[1:], m%dayMinutes/60, m%60)
}
