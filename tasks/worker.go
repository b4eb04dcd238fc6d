package tasks

import (
	"encoding/json"
	"time"
)

// Handler is one versioned handler that a worker offers.
type Handler struct {
	Type          string       `json:"type"`
	SchemaVersion int          `json:"schemaVersion"`
	EffectSafety  EffectSafety `json:"effectSafety"`
}

// RegisterRequest says what a worker can do. It replaces the worker's earlier registration and counts
// as being seen; a worker repeats it at least every 30 s and whenever it changes.
type RegisterRequest struct {
	WorkerID      string    `json:"workerId" doc:"stable over restarts, unique in the project"`
	Handlers      []Handler `json:"handlers"`
	Pools         []string  `json:"pools,omitempty" doc:"default [\"default\"]"`
	MaxConcurrent int       `json:"maxConcurrent"`
	Running       int       `json:"running" doc:"attempts held now"`
	Draining      bool      `json:"draining,omitempty"`
	Returns       bool      `json:"returns,omitempty" doc:"it drains to be replaced and will be back: work may wait for it"`
	Version       string    `json:"version,omitempty"`
}

// RegisterResponse sets the rhythm of a worker.
type RegisterResponse struct {
	LeaseMs int64 `json:"leaseMs" doc:"length of a lease; renew at a third of it"`
	SeenMs  int64 `json:"seenMs" doc:"register again within this time to stay online"`
}

// WorkerView is a worker as the fleet sees it. State is ready, full, draining or offline.
type WorkerView struct {
	WorkerID      string    `json:"workerId"`
	State         string    `json:"state"`
	Returns       bool      `json:"returns,omitempty" doc:"it drains and will be back"`
	Handlers      []Handler `json:"handlers"`
	Pools         []string  `json:"pools"`
	MaxConcurrent int       `json:"maxConcurrent"`
	Running       int       `json:"running"`
	Version       string    `json:"version,omitempty"`
	Machine       string    `json:"machine,omitempty" doc:"id of the fleet machine that it is, if it is one"`
	LastSeen      time.Time `json:"lastSeen"`
}

// ClaimRequest asks for up to Max attempts and waits for the first as long as WaitMs (≤ 25 s). It ends
// earlier, with none, when a registration takes away what it waits for.
type ClaimRequest struct {
	WorkerID string   `json:"workerId"`
	Max      int      `json:"max"`
	WaitMs   int64    `json:"waitMs,omitempty"`
	Pools    []string `json:"pools,omitempty" doc:"narrow to these of the registered pools; default all of them"`
}

// ClaimResponse has zero or more attempts.
type ClaimResponse struct {
	Attempts []Attempt `json:"attempts"`
}

// Ref proves who reports: every worker mutation carries it.
type Ref struct {
	TaskID     string `json:"taskId"`
	AttemptID  string `json:"attemptId"`
	Fence      int64  `json:"fence"`
	LeaseToken string `json:"leaseToken"`
}

// Attempt is one leased try of a task.
type Attempt struct {
	Ref
	Number        int               `json:"number" doc:"1 for the first try"`
	Type          string            `json:"type"`
	SchemaVersion int               `json:"schemaVersion"`
	Pool          string            `json:"pool"`
	Input         json.RawMessage   `json:"input,omitempty"`
	EffectKey     string            `json:"effectKey"`
	Correlations  map[string]string `json:"correlations,omitempty"`
	LeaseMs       int64             `json:"leaseMs"`
	DeadlineMs    int64             `json:"deadlineMs,omitempty" doc:"time left until the task expires; absent without a deadline"`
}

// RenewRequest extends the leases of several attempts.
type RenewRequest struct {
	WorkerID string `json:"workerId"`
	Attempts []Ref  `json:"attempts"`
}

// RenewResponse has one Renewal for each attempt, in order.
type RenewResponse struct {
	Renewals []Renewal `json:"renewals"`
}

// Renewal is the answer for one attempt. Error (STALE_ATTEMPT) means: stop, report nothing more.
type Renewal struct {
	AttemptID    string  `json:"attemptId"`
	LeaseMs      int64   `json:"leaseMs,omitempty"`
	Cancel       bool    `json:"cancel,omitempty" doc:"stop, then report fail with code CANCELLED"`
	CancelReason string  `json:"cancelReason,omitempty"`
	Error        *Answer `json:"error,omitempty"`
}

// Answer is a coded refusal of one item of a batch.
type Answer struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
}

// ProgressReport is a worker's newest word on an attempt.
type ProgressReport struct {
	Ref
	Progress
}

// LogReport appends lines to the journal.
type LogReport struct {
	Ref
	Lines []LogLine `json:"lines"`
}

// LogLine is one line of a handler's log.
type LogLine struct {
	Level string `json:"level" doc:"debug, info, warn or error"`
	Line  string `json:"line" doc:"at most 8 KiB"`
}

// DeltaReport carries bytes of the attempt's output stream. Offset is how many bytes came before.
type DeltaReport struct {
	Ref
	Offset int64  `json:"offset"`
	Text   string `json:"text" doc:"valid UTF-8, at most 64 KiB"`
}

// DeltaResponse says how far the stream is durable. The worker keeps what is beyond, and sends it
// again from DurableTo after a STREAM_GAP, a reconnect or a restart of the control plane.
type DeltaResponse struct {
	DurableTo int64 `json:"durableTo"`
	Cancel    bool  `json:"cancel,omitempty"`
}

// Completion ends an attempt with a result. StreamBytes is the length of its whole output stream; a
// control plane that holds fewer refuses with STREAM_GAP and the worker sends the rest first.
type Completion struct {
	Ref
	Result      json.RawMessage `json:"result,omitempty"`
	StreamBytes int64           `json:"streamBytes,omitempty"`
}

// CompleteRequest ends several attempts.
type CompleteRequest struct {
	Completions []Completion `json:"completions"`
}

// CompleteResponse has one Outcome for each completion, in order.
type CompleteResponse struct {
	Outcomes []Outcome `json:"outcomes"`
}

// Outcome is the task's state after a report, or why the report was refused.
type Outcome struct {
	TaskID string  `json:"taskId"`
	State  State   `json:"state,omitempty"`
	Error  *Answer `json:"error,omitempty"`
}

// FailReport ends an attempt without a result. Code CANCELLED acknowledges a cancel request. Returned
// hands the attempt back undone: it does not count against the task, runs again when its handler is pure
// or idempotent, and ends with an unknown outcome otherwise. Unbegun says beside it that no handler ran, so
// that it runs again whatever its handler declares.
type FailReport struct {
	Ref
	Failure
	Returned    bool  `json:"returned,omitempty"`
	Unbegun     bool  `json:"unbegun,omitempty"`
	StreamBytes int64 `json:"streamBytes,omitempty"`
}

// CodeCancelled is the failure code with which a worker acknowledges a cancel request.
const CodeCancelled = "CANCELLED"

// UnknownReport says that an effect may have happened and cannot be proved.
type UnknownReport struct {
	Ref
	Reason string `json:"reason"`
}
