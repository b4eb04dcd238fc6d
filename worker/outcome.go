package worker

import (
	"context"
	"errors"
	"fmt"

	"interlock.sh/fault"
	"interlock.sh/tasks"
)

// Why a handler's context ended, as context.Cause tells.
var (
	// ErrCancelled: somebody asked the task to stop.
	ErrCancelled = errors.New("the task was asked to stop")
	// ErrStale: the attempt is no longer ours; nothing that it does counts any more.
	ErrStale = errors.New("the attempt's lease was lost")
	// ErrStopping: the worker stops, or its owner's hours ended; the attempt is handed back.
	ErrStopping = errors.New("the worker is stopping")
)

// Codes of failures that the worker itself reports.
const (
	CodePanic         = "PANIC"          // the handler panicked
	CodeHandlerFailed = "HANDLER_FAILED" // an error without a code of its own
	CodeReturned      = "RETURNED"       // handed back undone
	CodeExpired       = "EXPIRED"        // the task's deadline passed while the handler ran
)

// outcomeError is an error by which a handler says more than "failed".
type outcomeError struct {
	code      string // of the failure; empty takes the cause's
	message   string
	retryable bool
	unknown   bool
	cause     error
}

// Error is what the handler said.
func (e *outcomeError) Error() string { return e.message }

// Unwrap is the cause.
func (e *outcomeError) Unwrap() error { return e.cause }

// Retryable is a failure after which the task may run again, if its policy and the handler's declared
// effect safety permit that too.
func Retryable(err error) error {
	e := &outcomeError{message: err.Error(), retryable: true, cause: err}
	if said := (*outcomeError)(nil); errors.As(err, &said) {
		e.code, e.unknown = said.code, said.unknown // an unknown outcome stays one
	}
	return e
}

// Unknown says that an effect may have happened and cannot be proved. The task is never repeated.
func Unknown(reason string) error { return &outcomeError{message: reason, unknown: true} }

// Fail is a failure that ends the task, with a code of the handler's own.
func Fail(code, message string) error { return &outcomeError{code: code, message: message} }

// endKind is which report ends an attempt.
type endKind string

const (
	endComplete endKind = "complete"
	endFail     endKind = "fail"
	endUnknown  endKind = "unknown"
	endNothing  endKind = "" // nothing is to be reported
)

// ending is how an attempt ended.
type ending struct {
	kind     endKind
	result   []byte
	failure  tasks.Failure
	returned bool
	unbegun  bool // with returned: no handler ran
	reason   string
}

// endOf is the report that follows from what a handler returned. cause is why its context had ended
// before, or nil.
func endOf(safety tasks.EffectSafety, result []byte, err, cause error) ending {
	if err == nil {
		return ending{kind: endComplete, result: result} // the work is done, whatever happened meanwhile
	}
	var said *outcomeError
	explicit := errors.As(err, &said)
	switch {
	case errors.Is(cause, ErrStale):
		return ending{}
	case explicit && said.unknown:
		return ending{kind: endUnknown, reason: said.message}
	case errors.Is(cause, ErrCancelled):
		return failed(tasks.CodeCancelled, err.Error(), false)
	case errors.Is(cause, context.DeadlineExceeded):
		return failed(CodeExpired, err.Error(), false)
	case errors.Is(cause, ErrStopping) && (!explicit || said.retryable):
		return handBack(safety, cause)
	case explicit && said.code != "":
		return failed(said.code, said.message, said.retryable)
	}
	return failed(codeOf(err), err.Error(), explicit && said.retryable)
}

// handBack is the end of an attempt that its worker did not finish, and why.
func handBack(safety tasks.EffectSafety, why error) ending {
	if !safety.Repeatable() {
		return ending{kind: endUnknown, reason: "a handler that must not repeat was stopped: " + why.Error()}
	}
	e := failed(CodeReturned, why.Error(), false)
	e.returned = true
	return e
}

// unbegun is the end of an attempt whose handler never ran: whatever its safety, it may run again.
func unbegun(why error) ending {
	e := handBack(tasks.Pure, why)
	e.unbegun = true
	return e
}

func failed(code, message string, retryable bool) ending {
	return ending{kind: endFail, failure: tasks.Failure{Code: code, Message: message, Retryable: retryable}}
}

func panicked(v any) ending {
	return failed(CodePanic, fmt.Sprintf("the handler panicked: %v", v), false)
}

// tooLarge ends an attempt whose result can never be taken.
func tooLarge(size int) ending {
	return failed(string(fault.ResultTooLarge), fmt.Sprintf(
		"the result is %d bytes; the inline limit is %d. Store it as a file and return its hash, size and type", size, tasks.MaxInline), false)
}

func codeOf(err error) string {
	var coded *fault.Error
	if errors.As(err, &coded) && coded.Code != "" {
		return string(coded.Code)
	}
	return CodeHandlerFailed
}

func (e ending) cancelled() bool { return e.kind == endFail && e.failure.Code == tasks.CodeCancelled }
