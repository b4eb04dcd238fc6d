package fault

import "net/http"

// Code names one kind of refusal. A Code is itself an error, as a target for errors.Is.
type Code string

// Error makes a Code a target of errors.Is.
func (c Code) Error() string { return string(c) }

// The codes. Those with an upper-case literal in the specification keep it.
const (
	Invalid         Code = "INVALID"            // the request breaks a rule; Field names where
	Malformed       Code = "MALFORMED"          // the body is no JSON, or a field has the wrong type
	Unauthenticated Code = "UNAUTHENTICATED"    // no credential, or one that is not known
	Revoked         Code = "REVOKED"            // the credential was revoked
	ScopeDenied     Code = "SCOPE_DENIED"       // the credential is for another role or another owner
	NotFound        Code = "NOT_FOUND"          // nothing of that name that the caller may see
	WrongMethod     Code = "METHOD_NOT_ALLOWED" // the path takes other methods; the Allow header has them
	Conflict        Code = "CONFLICT"           // the state forbids it
	TooLarge        Code = "TOO_LARGE"          // a size limit; Details has limit and size in bytes
	ResultTooLarge  Code = "RESULT_TOO_LARGE"   // a task result above the inline limit
	RateLimited     Code = "RATE_LIMITED"       // Details has retryAfterSeconds
	QueueFull       Code = "QUEUE_FULL"         // a bounded queue; Details has limit and retryAfterSeconds
	Internal        Code = "INTERNAL"           // our fault; the cause is in the log
	Unavailable     Code = "UNAVAILABLE"        // draining or starting; try again
	CaptivePortal   Code = "CAPTIVE_PORTAL"     // a login page of the network answered; it goes away when somebody signs in
	Unknown         Code = "OUTCOME_UNKNOWN"    // the commit failed and may or may not have happened
	DiskFull        Code = "DISK_FULL"          // needs and has, in Details

	StaleAttempt        Code = "STALE_ATTEMPT"                // the attempt's lease or fence was replaced
	IdempotencyConflict Code = "IDEMPOTENCY_CONFLICT"         // the key was used with another request
	UnknownTaskType     Code = "UNKNOWN_TASK_TYPE"            // the type breaks the naming rule
	StreamGap           Code = "STREAM_GAP"                   // a delta beyond what is held; Details has durableTo
	NoEligibleWorker    Code = "NO_ELIGIBLE_INFERENCE_WORKER" // no healthy machine serves the model
	ManagedNotSet       Code = "MANAGED_NOT_CONFIGURED"       // managed providers are not configured
	ReleaseConflict     Code = "RELEASE_CONFLICT"             // a release name reused with other bytes
	AliasTaken          Code = "ALIAS_TAKEN"                  // a deployment alias names other weights
	HashMismatch        Code = "HASH_MISMATCH"                // bytes are not what their digest says
	RangeUnsatisfiable  Code = "RANGE_NOT_SATISFIABLE"        // an upload offset or a download range out of bounds
	ChecksumUnknown     Code = "BLOB_NOT_FOUND"               // a digest that names no stored bytes
)

var statuses = map[Code]int{
	Invalid: http.StatusBadRequest, Malformed: http.StatusBadRequest, UnknownTaskType: http.StatusBadRequest,
	HashMismatch:    http.StatusUnprocessableEntity,
	Unauthenticated: http.StatusUnauthorized, Revoked: http.StatusUnauthorized,
	ScopeDenied: http.StatusForbidden,
	NotFound:    http.StatusNotFound, ChecksumUnknown: http.StatusNotFound,
	WrongMethod: http.StatusMethodNotAllowed,
	Conflict:    http.StatusConflict, StaleAttempt: http.StatusConflict, IdempotencyConflict: http.StatusConflict,
	NoEligibleWorker: http.StatusConflict, ManagedNotSet: http.StatusConflict, ReleaseConflict: http.StatusConflict,
	AliasTaken: http.StatusConflict, StreamGap: http.StatusConflict,
	TooLarge: http.StatusRequestEntityTooLarge, ResultTooLarge: http.StatusRequestEntityTooLarge,
	RangeUnsatisfiable: http.StatusRequestedRangeNotSatisfiable,
	RateLimited:        http.StatusTooManyRequests, QueueFull: http.StatusTooManyRequests,
	Internal:    http.StatusInternalServerError,
	Unavailable: http.StatusServiceUnavailable, Unknown: http.StatusServiceUnavailable,
	DiskFull: http.StatusInsufficientStorage, CaptivePortal: http.StatusNetworkAuthenticationRequired,
}

// Status is the HTTP status of a code; 500 for one that is not in the table.
func (c Code) Status() int {
	if s, ok := statuses[c]; ok {
		return s
	}
	return http.StatusInternalServerError
}

// ForStatus is the code that stands for a bare HTTP status, used when a peer sent no coded body.
func ForStatus(status int) Code {
	switch status {
	case http.StatusUnauthorized:
		return Unauthenticated
	case http.StatusForbidden:
		return ScopeDenied
	case http.StatusNotFound:
		return NotFound
	case http.StatusMethodNotAllowed:
		return WrongMethod
	case http.StatusConflict:
		return Conflict
	case http.StatusRequestEntityTooLarge:
		return TooLarge
	case http.StatusRequestedRangeNotSatisfiable:
		return RangeUnsatisfiable
	case http.StatusTooManyRequests:
		return RateLimited
	case http.StatusNetworkAuthenticationRequired:
		return CaptivePortal
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return Unavailable
	}
	if status >= 400 && status < 500 {
		return Invalid
	}
	return Internal
}
