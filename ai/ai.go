// Package ai is the vocabulary of AI runs: route policies, the request and snapshot of a run, what the
// ai/chat@1 worker receives and answers, and the usage event. It does no I/O; server/ai admits and
// bills runs, agent answers them.
package ai

import (
	"encoding/json"
	"time"

	"interlock.sh/tasks"
)

// The task type that model machines serve.
const (
	ChatType    = "ai/chat"
	ChatVersion = 1
)

// Limits of a run.
const (
	MaxTokens     = 16384
	MaxBody       = 8 << 20        // bytes of a request to /api/ai/runs or /v1
	MaxQueued     = 1000           // runs that wait for one deployment
	MaxAttempts   = 2              // a lost attempt is tried once more
	MaxTimeout    = 24 * time.Hour // of timeoutMs
	DefaultExpiry = 1 * time.Hour  // without timeoutMs
	DefaultTokens = 2048           // without maxTokens
)

// Policy is where a run may be placed. Placement is explicit.
type Policy string

// The three policies.
const (
	ManagedOnly           Policy = "managed-only"
	SelfHostedOnly        Policy = "self-hosted-only"
	SelfHostedThenManaged Policy = "self-hosted-then-managed"
)

// Valid reports whether p is one of the three policies.
func (p Policy) Valid() bool {
	return p == ManagedOnly || p == SelfHostedOnly || p == SelfHostedThenManaged
}

// Message is one message of a chat, as OpenAI's API has it.
type Message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content,omitempty" doc:"a string, or a list of text parts"`
	Name       string          `json:"name,omitempty"`
	ToolCalls  json.RawMessage `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
}

// RunRequest submits a durable run. Exactly one of Prompt and Messages is given.
type RunRequest struct {
	// A mistyped name must not lose the idempotency key in silence.
	_ struct{} `additionalProperties:"false"`

	Model          string          `json:"model" doc:"a deployment alias, or group@channel"`
	Prompt         string          `json:"prompt,omitempty"`
	System         string          `json:"system,omitempty" doc:"system message before Prompt"`
	Messages       []Message       `json:"messages,omitempty"`
	RoutePolicy    Policy          `json:"routePolicy,omitempty" doc:"default self-hosted-only for a deployment alias"`
	MaxTokens      int             `json:"maxTokens,omitempty" doc:"1 to 16384"`
	TimeoutMs      int64           `json:"timeoutMs,omitempty" doc:"counted from admission, with waitForMs from its first start, at the latest from the wait's end; at most 24 h, default 1 h"`
	WaitForMs      int64           `json:"waitForMs,omitempty" doc:"how long it may wait for a machine to serve it, at most 24 h; default not at all"`
	Temperature    *float64        `json:"temperature,omitempty"`
	TopP           *float64        `json:"topP,omitempty"`
	Seed           *int64          `json:"seed,omitempty"`
	Stop           []string        `json:"stop,omitempty"`
	Tools          json.RawMessage `json:"tools,omitempty"`
	ToolChoice     json.RawMessage `json:"toolChoice,omitempty"`
	ResponseFormat json.RawMessage `json:"responseFormat,omitempty"`
	IdempotencyKey string          `json:"idempotencyKey,omitempty"`
}

// Run is a snapshot of a run with its evidence. State is the state of the underlying task.
type Run struct {
	ID              string          `json:"id"`
	TaskID          string          `json:"taskId"`
	Project         string          `json:"project"`
	State           tasks.State     `json:"state"`
	Model           string          `json:"model" doc:"as asked"`
	Deployment      string          `json:"deployment" doc:"alias that names the exact weights"`
	DeploymentID    string          `json:"deploymentId"`
	RoutePolicy     Policy          `json:"routePolicy"`
	Route           string          `json:"route"`
	Answer          *string         `json:"answer,omitempty"`
	ToolCalls       json.RawMessage `json:"toolCalls,omitempty"`
	FinishReason    string          `json:"finishReason,omitempty"`
	Error           *tasks.Failure  `json:"error,omitempty"`
	Usage           *Usage          `json:"usage,omitempty"`
	UsageEventID    string          `json:"usageEventId,omitempty"`
	WorkerID        string          `json:"workerId,omitempty"`
	Machine         string          `json:"machine,omitempty" doc:"the machine's name"`
	Attempt         int             `json:"attempt" doc:"number of the newest attempt, 0 before the first"`
	TokensPerSecond *float64        `json:"tokensPerSecond,omitempty"`
	DurationMs      int64           `json:"durationMs,omitempty" doc:"from the attempt's claim to its end, reading of the prompt included"`
	CreatedAt       time.Time       `json:"createdAt"`
	StartedAt       *time.Time      `json:"startedAt,omitempty"`
	EndedAt         *time.Time      `json:"endedAt,omitempty"`
	Waiting         *Waiting        `json:"waiting,omitempty" doc:"of a queued run with waitForMs, or one that was given back"`
}

// RunList is one page of runs, newest first.
type RunList struct {
	Runs []Run  `json:"runs"`
	Next string `json:"next,omitempty"`
}

// Usage counts tokens.
type Usage struct {
	PromptTokens     int `json:"promptTokens"`
	CompletionTokens int `json:"completionTokens"`
	TotalTokens      int `json:"totalTokens"`
}

// UsageEvent is the one charge of a run. A run that reached no model has none.
type UsageEvent struct {
	ID           string      `json:"id"`
	RunID        string      `json:"runId"`
	TaskID       string      `json:"taskId"`
	Project      string      `json:"project"`
	Route        string      `json:"route"`
	RoutePolicy  Policy      `json:"routePolicy"`
	Deployment   string      `json:"deployment"`
	DeploymentID string      `json:"deploymentId"`
	WorkerID     string      `json:"workerId"`
	Attempt      int         `json:"attempt"`
	Usage        Usage       `json:"usage"`
	DurationMs   int64       `json:"durationMs"`
	State        tasks.State `json:"state"`
	At           time.Time   `json:"at"`
}

// UsageList is one page of usage events, newest first, with the totals of the whole selection.
type UsageList struct {
	Events []UsageEvent `json:"events"`
	Runs   int64        `json:"runs"`
	Total  Usage        `json:"total"`
	Next   string       `json:"next,omitempty"`
}

// ChatInput is the task input of ai/chat@1. The request body is a blob, so that a long conversation
// does not meet the inline limit.
type ChatInput struct {
	DeploymentID string  `json:"deploymentId"`
	Alias        string  `json:"alias"`
	Request      BlobRef `json:"request" doc:"an OpenAI chat completion body"`
}

// BlobRef names stored bytes.
type BlobRef struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// ChatResult is the task result of ai/chat@1.
type ChatResult struct {
	Content         string          `json:"content"`
	ToolCalls       json.RawMessage `json:"toolCalls,omitempty"`
	FinishReason    string          `json:"finishReason"`
	Usage           Usage           `json:"usage"`
	TokensPerSecond *float64        `json:"tokensPerSecond,omitempty"`
	DurationMs      int64           `json:"durationMs"`
}

// Chunk is one line of an attempt's output stream: what a choice of an OpenAI chunk carries, without
// the envelope. The stream is newline-delimited JSON, so its offsets are byte offsets.
type Chunk struct {
	Delta        json.RawMessage `json:"delta,omitempty"`
	Logprobs     json.RawMessage `json:"logprobs,omitempty"`
	FinishReason string          `json:"finish_reason,omitempty"`
}

// StreamEvent is the data of an event of /api/ai/runs/{id}/stream. Which fields are set depends on the
// event: hello (run), delta (attempt, offset, text), restarted (attempt), end (run).
type StreamEvent struct {
	Run     *Run   `json:"run,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Offset  int64  `json:"offset" doc:"bytes of the attempt's stream before this delta"`
	Text    string `json:"text,omitempty"`
	Chunk   *Chunk `json:"chunk,omitempty" doc:"the whole chunk, when it carries more than text"`
}

// The events of a run's stream.
const (
	StreamHello     = "hello"
	StreamDelta     = "delta"
	StreamRestarted = "restarted"
	StreamEnd       = "end"
)
