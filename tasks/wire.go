package tasks

import (
	"encoding/json"
	"time"
)

// SubmitRequest asks for one task. Durations are milliseconds: clocks of two machines never compare.
type SubmitRequest struct {
	// A mistyped name must not lose the idempotency key in silence.
	_ struct{} `additionalProperties:"false"`

	Type           string            `json:"type" doc:"the literal task type, without a version" example:"demo/hello"`
	SchemaVersion  int               `json:"schemaVersion" doc:"version of the input's schema, from 1" example:"1"`
	Input          json.RawMessage   `json:"input,omitempty" doc:"any JSON value, at most 256 KiB"`
	IdempotencyKey string            `json:"idempotencyKey,omitempty" doc:"same key and same request return the same task"`
	Pool           string            `json:"pool,omitempty" doc:"only workers of this pool claim it; default \"default\""`
	Priority       int               `json:"priority,omitempty" doc:"0 to 9, higher first"`
	DelayMs        int64             `json:"delayMs,omitempty" doc:"stay scheduled this long first"`
	ExpiresInMs    int64             `json:"expiresInMs,omitempty" doc:"deadline counted from admission; 0 is none"`
	MaxAttempts    int               `json:"maxAttempts,omitempty" doc:"1 to 100, default 3"`
	Correlations   map[string]string `json:"correlations,omitempty" doc:"up to 16 labels of the caller's"`

	// Reserved for later versions; refused when set.
	RunAt          string   `json:"runAt,omitempty"`
	ConcurrencyKey string   `json:"concurrencyKey,omitempty"`
	Tags           []string `json:"tags,omitempty"`
	ParentID       string   `json:"parentId,omitempty"`
}

// View is a task as its producer sees it.
type View struct {
	ID              string            `json:"id"`
	Project         string            `json:"project"`
	Type            string            `json:"type"`
	SchemaVersion   int               `json:"schemaVersion"`
	State           State             `json:"state"`
	Pool            string            `json:"pool"`
	Priority        int               `json:"priority"`
	Attempts        int               `json:"attempts" doc:"attempts that counted so far"`
	MaxAttempts     int               `json:"maxAttempts"`
	EffectKey       string            `json:"effectKey" doc:"stable over all attempts"`
	EffectSafety    EffectSafety      `json:"effectSafety,omitempty" doc:"declared by the handler of the newest attempt"`
	WorkerID        string            `json:"workerId,omitempty" doc:"who holds or held the newest attempt"`
	AttemptID       string            `json:"attemptId,omitempty"`
	Input           json.RawMessage   `json:"input,omitempty"`
	Result          json.RawMessage   `json:"result,omitempty"`
	Error           *Failure          `json:"error,omitempty"`
	Progress        *Progress         `json:"progress,omitempty"`
	CancelRequested bool              `json:"cancelRequested,omitempty"`
	CancelReason    string            `json:"cancelReason,omitempty"`
	IdempotencyKey  string            `json:"idempotencyKey,omitempty"`
	Correlations    map[string]string `json:"correlations,omitempty"`
	Cursor          int64             `json:"cursor" doc:"sequence number of the newest journal entry"`
	CreatedAt       time.Time         `json:"createdAt"`
	UpdatedAt       time.Time         `json:"updatedAt"`
	StartedAt       *time.Time        `json:"startedAt,omitempty"`
	EndedAt         *time.Time        `json:"endedAt,omitempty"`
	ExpiresAt       *time.Time        `json:"expiresAt,omitempty"`
}

// Failure is the error of a task or attempt.
type Failure struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable,omitempty"`
}

// Progress is the newest word of a running attempt.
type Progress struct {
	Percent float64 `json:"percent" doc:"0 to 100"`
	Message string  `json:"message,omitempty"`
}

// List is one page of tasks, newest first.
type List struct {
	Tasks []View `json:"tasks"`
	Next  string `json:"next,omitempty" doc:"pass as before to read on"`
}

// CancelRequest asks a task to stop: at once when it is not held, else by its worker's cooperation.
type CancelRequest struct {
	Reason string `json:"reason,omitempty"`
}

// Entry is one line of a task's ordered, append-only journal.
type Entry struct {
	Seq       int64           `json:"seq" doc:"1, 2, 3, … without gaps within a task"`
	At        time.Time       `json:"at"`
	Kind      EntryKind       `json:"kind"`
	AttemptID string          `json:"attemptId,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
}

// EntryKind names what an Entry records.
type EntryKind string

// The kinds of journal entries.
const (
	EntrySubmitted       EntryKind = "submitted"
	EntryQueued          EntryKind = "queued" // due, or requeued; data says why
	EntryLeased          EntryKind = "leased" // data: workerId, number, fence
	EntryRunning         EntryKind = "running"
	EntryProgress        EntryKind = "progress"
	EntryLog             EntryKind = "log"   // data: lines
	EntryDelta           EntryKind = "delta" // data: offset, text
	EntryCancelRequested EntryKind = "cancel-requested"
	EntryAttemptLost     EntryKind = "attempt-lost"
	EntryAttemptFailed   EntryKind = "attempt-failed"
	EntrySucceeded       EntryKind = "succeeded"
	EntryFailed          EntryKind = "failed"
	EntryCancelled       EntryKind = "cancelled"
	EntryExpired         EntryKind = "expired"
	EntryUnknown         EntryKind = "outcome-unknown"
)

// Journal is one page of entries in order.
type Journal struct {
	Entries []Entry `json:"entries"`
	Cursor  int64   `json:"cursor" doc:"pass as after to read on"`
	State   State   `json:"state" doc:"the task's state when the page was read"`
}

// DeltaData is the data of an EntryDelta: bytes of an attempt's output stream from Offset on.
type DeltaData struct {
	Offset int64  `json:"offset" doc:"bytes before Text in this attempt's stream"`
	Text   string `json:"text"`
}
