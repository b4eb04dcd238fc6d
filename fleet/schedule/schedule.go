// Package schedule is the owner's word on when a machine may work: the hours and the other ceilings of
// one role, and the question "may it work now?" with the reason and the next change. It is pure: the
// caller brings the time, in the machine's zone, and what the machine measures.
//
// A window is a span of local wall-clock time, never a list of instants: it is asked "is now inside?",
// so a clock change, a sleep or a change of the zone needs no repair. Where a clock change repeats an
// hour, a window that ends within it is open twice; where one is skipped, what began in it begins after.
package schedule

import "time"

// Mode is the owner's choice for a role.
type Mode string

// The choices.
const (
	Always Mode = "always"
	Night  Mode = "night"  // 10 PM to 7 AM, every day
	Window Mode = "window" // the spans of Availability.Windows
	Paused Mode = "paused"
)

// Span is a part of the day. Start and End are "HH:MM" in local time; End before Start is on the next
// day, and "24:00" is the day's end. Days are the days on which it starts ("mon" … "sun"); none means
// every day.
type Span struct {
	Start string   `json:"start"`
	End   string   `json:"end"`
	Days  []string `json:"days,omitempty"`
}

// Bandwidth limits downloads in a part of the day, in bytes a second; 0 stops them.
type Bandwidth struct {
	Span
	BytesPerSecond int64 `json:"bytesPerSecond"`
}

// Availability is what the owner allows one role on one machine. It is a ceiling: nothing that the
// control plane wants goes beyond it. The zero value allows everything.
type Availability struct {
	Mode        Mode        `json:"mode"`
	Windows     []Span      `json:"windows,omitempty"`     // of mode window: at least one, not overlapping
	OnMains     bool        `json:"onMains,omitempty"`     // only on mains power
	IdleMinutes int         `json:"idleMinutes,omitempty"` // only when nobody used the machine for so long; 0 is off
	Bandwidth   []Bandwidth `json:"bandwidth,omitempty"`   // not overlapping; outside of them downloads are free
}

// Hold is a pause or a drain beside the hours: what "pause" and "pause all for an hour" make.
type Hold struct {
	Drain bool       `json:"drain,omitempty"` // finish the work, keep the models loaded
	Until *time.Time `json:"until,omitempty"` // nil: until it is lifted
}

// Facts is what the machine measures for the ceilings. Unknown is nil, and what is unknown forbids
// nothing: it is shown instead.
type Facts struct {
	Mains *bool          // it runs on mains power
	Idle  *time.Duration // since somebody used keyboard or mouse
}

// Verdict is the answer to "may it work now?".
type Verdict struct {
	Open   bool       `json:"open"`
	Drain  bool       `json:"drain,omitempty"`  // not open, but the models stay loaded: a hold that drains
	Why    string     `json:"why,omitempty"`    // why not, in words: "until 22:00", "on battery"
	Next   *time.Time `json:"next,omitempty"`   // the next change that the clock alone brings
	Unsure []string   `json:"unsure,omitempty"` // ceilings that could not be measured
}
