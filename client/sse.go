package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/retry"
)

const maxEventLine = 1 << 20

// ErrStop, returned by the function given to Follow, ends it without an error.
var ErrStop = errors.New("stop following")

// Event is one event of a stream.
type Event struct {
	ID    string // the stream's last id, given by this event or an earlier one
	Event string // the kind; "message" when the server names none
	Data  []byte // the lines joined by "\n"; the receiver's to keep
}

// EventStream reads one connection's events. It is for one goroutine; Close may come from another.
type EventStream struct {
	body   *idleBody
	r      *bufio.Reader
	lastID string
	skipLF bool
	first  bool
	retry  time.Duration
}

// Stream opens an event stream behind lastEventID (empty: as the server begins). A stream that the
// server ended for good (204) is io.EOF. Events are hints: what they speak of is read by a GET.
func (c *Client) Stream(ctx context.Context, path, lastEventID string, opts ...CallOption) (*EventStream, error) {
	o := newCall(opts)
	o.header.Set("Accept", "text/event-stream")
	o.header.Set("Cache-Control", "no-cache")
	o.header.Set("Accept-Encoding", "identity") // a compressor in between would hold events back
	if lastEventID != "" {
		o.header.Set("Last-Event-ID", lastEventID)
	}
	live, cancel := context.WithCancelCause(ctx)
	// The answer's head must come in time; the stream itself may last.
	head := time.AfterFunc(o.timeout, func() { cancel(noAnswer(c.base, o.timeout)) })
	resp, err := c.send(live, http.MethodGet, path, nil, 0, o)
	if !head.Stop() && err == nil {
		_ = resp.Body.Close()
		err = noAnswer(c.base, o.timeout)
	}
	if err != nil {
		cancel(context.Canceled)
		return nil, err
	}
	if resp.StatusCode == http.StatusNoContent || mediaType(resp.Header) != "text/event-stream" {
		defer resp.Body.Close()
		defer cancel(context.Canceled)
		if resp.StatusCode == http.StatusNoContent {
			return nil, io.EOF
		}
		return nil, interposed(resp, c.base)
	}
	body := watchIdle(live, cancel, c.clock, idleTimeout, resp.Body)
	return &EventStream{body: body, r: bufio.NewReaderSize(body, 32<<10), lastID: lastEventID, first: true}, nil
}

// LastEventID is the id to go on from.
func (s *EventStream) LastEventID() string { return s.lastID }

// Close ends the connection.
func (s *EventStream) Close() error { return s.body.Close() }

// Next waits for the next event. io.EOF means that the server closed the stream in order; any other
// error that the connection broke or stayed silent for a minute. An unfinished event is dropped.
func (s *EventStream) Next() (Event, error) {
	var data []byte
	kind, hasData := "", false
	for {
		line, err := s.line()
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			if !hasData {
				kind = ""
				continue
			}
			if kind == "" {
				kind = "message"
			}
			return Event{ID: s.lastID, Event: kind, Data: data}, nil
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) { // a comment has an empty field name
		case "event":
			kind = string(value)
		case "data":
			if hasData {
				data = append(data, '\n')
			}
			hasData = true
			data = append(data, value...)
			if len(data) > maxEventLine {
				return Event{}, tooLong()
			}
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				s.lastID = string(value)
			}
		case "retry":
			if ms, err := strconv.ParseInt(string(value), 10, 32); err == nil && ms >= 0 {
				s.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// line reads up to CR, LF or CRLF. It never waits for the LF after a CR, which may come much later.
func (s *EventStream) line() ([]byte, error) {
	var out []byte
	for {
		b, err := s.r.ReadByte()
		if err != nil {
			return nil, err
		}
		if s.skipLF {
			s.skipLF = false
			if b == '\n' {
				continue
			}
		}
		if b == '\n' || b == '\r' {
			s.skipLF = b == '\r'
			if s.first {
				s.first = false
				out = bytes.TrimPrefix(out, []byte("\uFEFF"))
			}
			return out, nil
		}
		if len(out) >= maxEventLine {
			return nil, tooLong()
		}
		out = append(out, b)
	}
}

func tooLong() error {
	return fault.New(fault.TooLarge, "an event is longer than the limit of %d bytes", maxEventLine).
		With("limit", maxEventLine).WithHint("read what the event speaks of by a GET instead")
}

// Follow calls fn for each event behind from, reconnecting with backoff and Last-Event-ID, until the
// context ends, fn returns an error, the server ends the stream for good (nil), or it refuses in a
// way that waiting does not change. fn ends it without an error by returning ErrStop.
func (c *Client) Follow(ctx context.Context, path, from string, fn func(Event) error, opts ...CallOption) error {
	back := retry.Backoff{Base: 500 * time.Millisecond, Cap: 15 * time.Second}
	lastID := from
	for {
		floor, err := c.followOnce(ctx, path, &lastID, &back, fn, opts)
		var done *fnError
		switch {
		case errors.As(err, &done):
			if errors.Is(done.err, ErrStop) {
				return nil
			}
			return done.err
		case errors.Is(err, errEnded):
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("follow %s: %w", path, context.Cause(ctx))
		case definitive(err):
			return err
		}
		c.log.DebugContext(ctx, "stream reconnects", "path", path, "after", err)
		wait := back.Next(max(floor, RetryAfter(err)))
		if stop := retry.Sleep(ctx, c.clock, wait); stop != nil {
			return fmt.Errorf("follow %s: %w", path, stop)
		}
	}
}

var errEnded = errors.New("the server ended the stream for good")

type fnError struct{ err error }

// Error is the text of what the caller returned.
func (e *fnError) Error() string { return e.err.Error() }

// Unwrap is the cause.
func (e *fnError) Unwrap() error { return e.err }

func (c *Client) followOnce(ctx context.Context, path string, lastID *string, back *retry.Backoff,
	fn func(Event) error, opts []CallOption,
) (floor time.Duration, err error) {
	s, err := c.Stream(ctx, path, *lastID, opts...)
	if err == io.EOF { //nolint:errorlint // bare: a broken connection wraps an EOF of its own
		return 0, errEnded
	}
	if err != nil {
		return 0, err
	}
	defer s.Close()
	for {
		ev, err := s.Next()
		if err != nil {
			return s.retry, err
		}
		back.Reset()
		if err := fn(ev); err != nil {
			return 0, &fnError{err}
		}
		*lastID = s.LastEventID() // only what was handled is never asked for again
	}
}

// definitive is a refusal that the same request will meet again.
func definitive(err error) bool {
	if Transient(err) {
		return false
	}
	status := StatusOf(err)
	return (status >= 400 && status < 500) || fault.CodeOf(err) == fault.TooLarge
}
