package tasks

// EffectSafety is what a handler declares about repeating it. It is never inferred.
type EffectSafety string

// The three declarations.
const (
	Pure          EffectSafety = "pure"           // no effect outside; repeat at will
	Idempotent    EffectSafety = "idempotent"     // repeating with the same effectKey is harmless
	NonIdempotent EffectSafety = "non-idempotent" // repeating may double an effect
)

// Valid reports whether s is one of the three declarations.
func (s EffectSafety) Valid() bool { return s == Pure || s == Idempotent || s == NonIdempotent }

// Repeatable reports whether an attempt that may have had its effect can run again.
func (s EffectSafety) Repeatable() bool { return s == Pure || s == Idempotent }

// Standing is what decides the fate of an attempt that ended without a result.
type Standing struct {
	Safety          EffectSafety
	Attempts        int  // attempts that counted so far, this one included
	MaxAttempts     int  // the task's policy
	CancelRequested bool // a cancel request blocks every repeat
	DeadlinePassed  bool // so does a passed deadline
}

// AfterLoss is the event for an attempt whose lease ran out: the worker may have done anything.
func AfterLoss(s Standing) Event {
	switch {
	case !s.Safety.Repeatable():
		return EventUnknown
	case s.CancelRequested:
		return EventCancel
	case s.DeadlinePassed:
		return EventExpire
	case s.Attempts >= s.MaxAttempts:
		return EventFail
	}
	return EventRequeue
}

// AfterFailure is the event for a failure that the worker reported. It is retried only when the worker
// says retryable and both policy and declared safety permit it.
func AfterFailure(s Standing, retryable bool) Event {
	switch {
	case s.CancelRequested && !s.DeadlinePassed:
		return EventCancel
	case s.DeadlinePassed:
		return EventExpire
	case retryable && s.Safety.Repeatable() && s.Attempts < s.MaxAttempts:
		return EventRequeue
	}
	return EventFail
}

// AfterReturn is the event for an attempt that its worker hands back undone (it is shutting down or its
// owner's hours ended). A returned attempt does not count; one that must not repeat is unknown.
func AfterReturn(s Standing) Event {
	s.Attempts = 0
	s.MaxAttempts = 1
	return AfterLoss(s)
}
