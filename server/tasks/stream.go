package servertasks

import (
	"context"
	"iter"

	"interlock.sh/server/hints"
	"interlock.sh/server/store"
	"interlock.sh/tasks"
)

// Position is where a reader of a task's output stands: so many bytes of that attempt. The zero value
// is the beginning.
type Position struct {
	Attempt int // number of the attempt
	Offset  int64
}

// StreamKind tells the events of an output stream apart.
type StreamKind int

// The kinds of stream events.
const (
	StreamText      StreamKind = iota // Attempt, Offset, Text
	StreamRestarted                   // Attempt: its stream begins anew at 0, what came before is void
	StreamEnd                         // Task
)

// StreamEvent is one event of a task's output stream.
type StreamEvent struct {
	Kind    StreamKind
	Attempt int
	Offset  int64 // bytes of the attempt's stream before Text
	Text    string
	Task    tasks.View // how the task ended
}

// Stream reads a task's output from a position to its end, waiting for what is still to come. Each byte
// of an attempt comes once and in order, be it from memory or from the journal; when another attempt
// takes over, StreamRestarted says so. It ends after StreamEnd, after an error, or with the context's
// cause.
func (s *Service) Stream(ctx context.Context, project, id string, from Position) iter.Seq2[StreamEvent, error] {
	return func(yield func(StreamEvent, error) bool) {
		changed, cancel := s.hints.Subscribe(hints.Task(id)) // before the first look
		defer cancel()
		r := &streamReader{s: s, ctx: ctx, id: id, pos: from, numbers: map[string]int{}, yield: yield, changed: changed}
		for !r.done {
			if err := r.round(project); err != nil && !r.done {
				r.done = true
				yield(StreamEvent{}, wrap("read output stream", err))
			}
		}
	}
}

type streamReader struct {
	s       *Service
	ctx     context.Context // of the one call of Stream that the reader lives for
	id      string
	changed <-chan struct{}
	yield   func(StreamEvent, error) bool
	done    bool

	pos     Position
	attempt string         // id of the attempt that pos speaks of
	cursor  int64          // of the journal
	numbers map[string]int // attempt id → number
}

// round reads the journal up to now, then memory until something other than more bytes happens.
func (r *streamReader) round(project string) error {
	q := r.s.db.Reader(r.ctx)
	// The state is read first: when it is terminal, the journal read after it is complete.
	t, err := taskIn(q, project, r.id)
	if err != nil {
		return err
	}
	if err := r.journal(q); err != nil || r.done {
		return err
	}
	if t.state.Terminal() {
		v, err := t.view()
		if err != nil {
			return err
		}
		r.emit(StreamEvent{Kind: StreamEnd, Attempt: r.pos.Attempt, Task: v})
		r.done = true
		return nil
	}
	return r.memory()
}

const streamPage = 64

func (r *streamReader) journal(q store.Querier) error {
	for {
		rows, err := q.Query(`SELECT seq, at, kind, attempt_id, data FROM journal WHERE task_id = $1 AND seq > $2
			AND kind IN ('leased', 'delta') ORDER BY seq LIMIT $3 + 0`, r.id, r.cursor, streamPage)
		entries, err := store.All(rows, err, scanEntry)
		if err != nil {
			return err
		}
		for _, e := range entries {
			r.cursor = e.Seq
			if err := r.entry(e); err != nil || r.done {
				return err
			}
		}
		if len(entries) < streamPage {
			return nil
		}
	}
}

func (r *streamReader) entry(e tasks.Entry) error {
	if e.Kind == tasks.EntryLeased {
		var d leasedData
		if err := decode(string(e.Data), &d); err != nil {
			return err
		}
		r.numbers[e.AttemptID] = d.Number
		if d.Number < r.pos.Attempt {
			return nil
		}
		r.attempt = e.AttemptID
		if d.Number > r.pos.Attempt {
			again := r.pos.Attempt > 0
			r.pos = Position{Attempt: d.Number}
			if again {
				r.emit(StreamEvent{Kind: StreamRestarted, Attempt: d.Number})
			}
		}
		return nil
	}
	if r.numbers[e.AttemptID] != r.pos.Attempt {
		return nil
	}
	var d tasks.DeltaData
	if err := decode(string(e.Data), &d); err != nil {
		return err
	}
	if skip := r.pos.Offset - d.Offset; skip < int64(len(d.Text)) {
		r.text(d.Text[max(skip, 0):])
	}
	return nil
}

// memory passes on what comes in, and returns when truth has to be read again: when the attempt's stream
// is not in memory any more, and when something changed while it never was. Changes beside a stream that
// is in memory are mostly its own chunks on their way into the journal.
func (r *streamReader) memory() error {
	held := false
	for !r.done {
		var more <-chan struct{}
		l := r.s.lives.get(r.attempt)
		if l == nil && held {
			return nil
		}
		if l != nil {
			held = true
			text, changed, ok := l.read(r.pos.Offset)
			if text != "" {
				r.text(text)
				continue
			}
			if ok {
				more = changed
			} else if _, closed := l.pending(); !closed {
				return nil // behind what memory still has: the journal has it
			}
		}
		select {
		case <-more:
		case <-r.changed:
			if l == nil {
				return nil
			}
		case <-r.s.clock.After(fallbackPoll):
			return nil
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		}
	}
	return nil
}

func (r *streamReader) text(text string) {
	r.emit(StreamEvent{Kind: StreamText, Attempt: r.pos.Attempt, Offset: r.pos.Offset, Text: text})
	r.pos.Offset += int64(len(text))
}

func (r *streamReader) emit(e StreamEvent) {
	if !r.done && !r.yield(e, nil) {
		r.done = true
	}
}
