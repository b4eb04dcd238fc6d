package tasks

// State is where a task stands.
type State string

// The states of a task.
const (
	Scheduled      State = "scheduled"       // waits for its time
	Queued         State = "queued"          // may be claimed
	Leased         State = "leased"          // claimed, no report yet
	Running        State = "running"         // its worker reported
	Succeeded      State = "succeeded"       // terminal: the fenced completion is the result
	Failed         State = "failed"          // terminal: the last failure is the error
	Cancelled      State = "cancelled"       // terminal
	Expired        State = "expired"         // terminal: its deadline passed first
	OutcomeUnknown State = "outcome-unknown" // terminal: an effect may or may not have happened

	Waiting     State = "waiting"     // reserved: a parent that waits for children
	Quarantined State = "quarantined" // reserved: poison, set aside
)

// States lists every state, the reserved ones included, in the order people read them.
var States = []State{Scheduled, Queued, Leased, Running, Waiting, Succeeded, Failed, Cancelled, Expired, OutcomeUnknown, Quarantined}

// Terminal reports whether a task in s never changes again. An unknown state is live.
func (s State) Terminal() bool {
	switch s {
	case Succeeded, Failed, Cancelled, Expired, OutcomeUnknown:
		return true
	}
	return false
}

// Held reports whether an attempt holds a lease in s.
func (s State) Held() bool { return s == Leased || s == Running }

// Event is what happens to a task.
type Event string

// The events that move a task.
const (
	EventSubmit  Event = "submit"   // admission without a delay
	EventDelay   Event = "schedule" // admission with a delay
	EventDue     Event = "due"
	EventClaim   Event = "claim"
	EventStart   Event = "start"   // the first report of an attempt
	EventSucceed Event = "succeed" // the worker's completion
	EventFail    Event = "fail"    // a failure that ends the task
	EventRequeue Event = "requeue" // a retryable failure, a lost or a returned attempt that may repeat
	EventUnknown Event = "unknown" // reported by the worker, or a lost attempt that must not repeat
	EventCancel  Event = "cancel"  // before a claim, or acknowledged by the worker
	EventExpire  Event = "expire"  // the deadline passed
)

// Transition is one allowed move. From is empty for an admission.
type Transition struct {
	From  State
	Event Event
	To    State
}

// Transitions is the whole state machine; what is not listed is refused.
var Transitions = []Transition{
	{"", EventSubmit, Queued},
	{"", EventDelay, Scheduled},
	{Scheduled, EventDue, Queued},
	{Scheduled, EventCancel, Cancelled},
	{Scheduled, EventExpire, Expired},
	{Queued, EventClaim, Leased},
	{Queued, EventCancel, Cancelled},
	{Queued, EventExpire, Expired},
	{Leased, EventStart, Running},
	{Leased, EventSucceed, Succeeded},
	{Leased, EventFail, Failed},
	{Leased, EventRequeue, Queued},
	{Leased, EventUnknown, OutcomeUnknown},
	{Leased, EventCancel, Cancelled},
	{Leased, EventExpire, Expired},
	{Running, EventSucceed, Succeeded},
	{Running, EventFail, Failed},
	{Running, EventRequeue, Queued},
	{Running, EventUnknown, OutcomeUnknown},
	{Running, EventCancel, Cancelled},
	{Running, EventExpire, Expired},
}

// Next is the state that event leads to from s; false when the table does not allow it.
func Next(s State, event Event) (State, bool) {
	for _, t := range Transitions {
		if t.From == s && t.Event == event {
			return t.To, true
		}
	}
	return "", false
}
