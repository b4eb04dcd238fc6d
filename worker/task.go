package worker

import (
	"encoding/json"
	"math"

	"interlock.sh/fault"
	"interlock.sh/tasks"
)

// Task is what a handler sees of its attempt.
type Task struct {
	ID            string
	AttemptID     string
	Number        int    // 1 for the first try
	EffectKey     string // the same in all attempts: the idempotency key for an effect outside
	Type          string
	SchemaVersion int
	Pool          string
	Correlations  map[string]string
	Input         json.RawMessage

	at *attempt
}

// Decode reads the input. Its error, returned by the handler, fails the task with code MALFORMED.
func (t *Task) Decode(into any) error {
	if err := json.Unmarshal(t.Input, into); err != nil {
		return fault.Wrap(err, fault.Malformed, "the input of %s@%d is not what its handler reads: %v", t.Type, t.SchemaVersion, err).
			WithField("input")
	}
	return nil
}

// Progress is the newest word on the attempt, from 0 to 100 percent; only the last one is sure to
// arrive. It never waits.
func (t *Task) Progress(percent float64, message string) {
	if math.IsNaN(percent) {
		percent = 0
	}
	t.at.chatter.progress(tasks.Progress{Percent: min(max(percent, 0), 100), Message: message})
}

// Log appends a line to the task's journal; level is debug, info, warn or error. It never waits: a
// handler that logs faster than the network takes loses lines, and a line says how many.
func (t *Task) Log(level, line string) { t.at.chatter.log(level, line) }

// Write appends to the attempt's output stream, which readers follow live. It waits when more than
// 1 MiB is not durable yet, and then ends with the cause of the handler's context.
func (t *Task) Write(p []byte) (int, error) { return t.at.stream.write(t.at.ctx, p) }

// WriteString is Write for a string.
func (t *Task) WriteString(s string) (int, error) { return t.Write([]byte(s)) }
