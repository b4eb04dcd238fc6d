package servertasks

import (
	"crypto/subtle"
	"sync"
	"unicode/utf8"

	"interlock.sh/fault"
	"interlock.sh/internal/ident"
	"interlock.sh/tasks"
)

// MaxStream bounds the output stream of one attempt.
const MaxStream = 64 << 20

// keepDurable is how many durable bytes stay in memory, so that readers which keep up never read them
// back from the journal.
const keepDurable = 64 << 10

// lives are the output streams that are being written now, by attempt. What they hold beyond durable is
// in memory alone: losing it costs nothing but a STREAM_GAP, after which the worker sends it again.
type lives struct {
	mu      sync.Mutex
	all     map[string]*live
	stopped bool
	stop    chan struct{}
	flushes sync.WaitGroup
}

// live is one attempt's stream.
type live struct {
	attempt, task, project, worker string
	number                         int
	fence                          int64
	leaseHash                      string

	full chan struct{} // holds one: there is enough for a chunk

	mu       sync.Mutex
	base     int64 // offset of buf[0]
	buf      []byte
	durable  int64
	cancel   bool
	closed   bool
	flushing bool
	changed  chan struct{} // closed when bytes came or the stream ended
}

func newLives() *lives { return &lives{all: map[string]*live{}, stop: make(chan struct{})} }

func newLive(t *task, a AttemptInfo) *live {
	return &live{
		attempt: a.ID, task: t.id, project: t.project, worker: t.workerID, number: a.Number, fence: t.fence, leaseHash: t.leaseHash,
		full: make(chan struct{}, 1), changed: make(chan struct{}),
		base: a.StreamBytes, durable: a.StreamBytes, cancel: t.cancelRequested != byNone,
	}
}

func (ls *lives) get(attempt string) *live {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.all[attempt]
}

// add keeps l unless another request was first; it returns the one that counts.
func (ls *lives) add(l *live) *live {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if first := ls.all[l.attempt]; first != nil {
		return first
	}
	ls.all[l.attempt] = l
	return l
}

// close forgets attempts that are over; their readers go back to the journal.
func (ls *lives) close(attempts []string) {
	for _, id := range attempts {
		ls.mu.Lock()
		l := ls.all[id]
		delete(ls.all, id)
		ls.mu.Unlock()
		if l != nil {
			l.mu.Lock()
			l.closed = true
			l.broadcast()
			l.mu.Unlock()
			hint(l.full) // ends a waiting flush
		}
	}
}

func (ls *lives) cancel(reasons map[string]string) {
	for id := range reasons {
		if l := ls.get(id); l != nil {
			l.mu.Lock()
			l.cancel = true
			l.mu.Unlock()
		}
	}
}

// saved notes how far a commit made streams durable.
func (ls *lives) saved(upTo map[string]int64) {
	for id, n := range upTo {
		if l := ls.get(id); l != nil {
			l.mu.Lock()
			l.durable = max(l.durable, n)
			if drop := l.durable - keepDurable - l.base; drop > keepDurable {
				l.buf = append([]byte(nil), l.buf[drop:]...)
				l.base += drop
			}
			l.mu.Unlock()
		}
	}
}

// beyond is what memory holds of an attempt's stream after offset.
func (ls *lives) beyond(attempt string, offset int64) string {
	l := ls.get(attempt)
	if l == nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if offset < l.base || offset >= l.held() {
		return ""
	}
	return string(l.buf[offset-l.base:])
}

func (l *live) held() int64 { return l.base + int64(len(l.buf)) }

func (l *live) broadcast() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// check is what newest does, for an attempt whose row was read when the stream began.
func (l *live) check(c Caller, ref tasks.Ref) error {
	switch {
	case l.task != ref.TaskID, l.project != c.Project, l.fence != ref.Fence,
		subtle.ConstantTimeCompare([]byte(l.leaseHash), []byte(ident.HashSecret(ref.LeaseToken))) != 1:
		return stale(ref)
	case c.CheckWorker(l.worker) != nil:
		return notYours(ref)
	}
	return nil
}

// add appends text that begins at offset. What is held already drops out; a gap is refused.
func (l *live) add(offset int64, text string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.held()
	switch {
	case l.closed:
		return stale(tasks.Ref{TaskID: l.task, AttemptID: l.attempt})
	case offset > held:
		return streamGap(offset, l.durable)
	case offset+int64(len(text)) > MaxStream:
		return fault.New(fault.TooLarge, "the output stream would be %d bytes; the limit is %d", offset+int64(len(text)), int64(MaxStream)).
			WithField("text").With("limit", int64(MaxStream)).With("size", offset+int64(len(text)))
	case offset+int64(len(text)) <= held:
		return nil
	}
	fresh := text[held-offset:]
	if !utf8.RuneStart(fresh[0]) {
		return fault.New(fault.Invalid, "text overlaps the %d bytes that are held, but differs from them", held).WithField("offset").
			WithHint("send the same bytes again at the same offsets")
	}
	l.buf = append(l.buf, fresh...)
	l.broadcast()
	return nil
}

// read gives what memory holds from offset on, and a channel that closes when there is more. ok is
// false when the journal has to be asked.
func (l *live) read(offset int64) (text string, changed <-chan struct{}, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || offset < l.base {
		return "", nil, false
	}
	if offset < l.held() {
		text = string(l.buf[offset-l.base:])
	}
	return text, l.changed, true
}

func (l *live) answer() tasks.DeltaResponse {
	l.mu.Lock()
	defer l.mu.Unlock()
	return tasks.DeltaResponse{DurableTo: l.durable, Cancel: l.cancel}
}

func (l *live) pending() (bytes int64, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held() - l.durable, l.closed
}

func streamGap(offset, durable int64) error {
	return fault.New(fault.StreamGap, "the stream is at %d bytes, but only %d are held", offset, durable).
		With("durableTo", durable).WithHint("send it again from byte %d", durable)
}
