// Package fault is the one coded error of the house: what every room returns when a user, a machine
// or another program must be told what went wrong.
//
// It owns the error type, the list of codes and the table from code to HTTP status. It does no I/O.
// A server encodes an Error as the JSON object {"error": {...}}; the client decodes the same object
// back, so errors.As works on both sides of the wire.
package fault

import (
	"errors"
	"fmt"
)

// Error is a coded error. Message says which rule or limit refused and the value it met; Hint says
// the way out. Cause is for logs only and never crosses the wire.
type Error struct {
	Code    Code           `json:"code"`
	Message string         `json:"message"`
	Hint    string         `json:"hint,omitempty"`
	Field   string         `json:"field,omitempty"`   // the offending input field, dotted, when there is one
	Details map[string]any `json:"details,omitempty"` // machine-readable values, e.g. limits and digests
	Cause   error          `json:"-"`
}

// New makes a coded error from a format.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Wrap makes a coded error that keeps its cause for logs and errors.Is.
func Wrap(cause error, code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// WithHint returns a copy that says the way out.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// WithField returns a copy that names the offending input field.
func (e *Error) WithField(field string) *Error {
	c := *e
	c.Field = field
	return &c
}

// With returns a copy with one more machine-readable detail.
func (e *Error) With(key string, value any) *Error {
	c := *e
	c.Details = make(map[string]any, len(e.Details)+1)
	for k, v := range e.Details {
		c.Details[k] = v
	}
	c.Details[key] = value
	return &c
}

// Error is the message and, in brackets, the hint.
func (e *Error) Error() string {
	if e.Hint != "" {
		return e.Message + " (" + e.Hint + ")"
	}
	return e.Message
}

// Unwrap gives the cause to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Cause }

// Is makes errors.Is(err, fault.StaleAttempt) true for an Error of that code.
func (e *Error) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == e.Code
}

// Of is err as a coded error: itself when it is one, else an Internal that hides its text from users.
func Of(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return Wrap(err, Internal, "internal error").
		WithHint("the server's log has the cause under this request's id")
}

// CodeOf is the code of err, or Internal for an error without one, or "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return Of(err).Code
}
