package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"interlock.sh/fault"
)

// heartbeat is how often an idle stream sends a comment, so that no proxy closes it.
const heartbeat = 25 * time.Second

// readerStalls is how long one write may wait for a reader that takes nothing. Its connection stands as
// long as its system answers, and would hold the handler and what it reads for ever.
const readerStalls = time.Minute

// stream writes server-sent events: hints that a client may lose without losing anything.
type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

// openStream starts an event stream with a comment, so that the client sees at once that it stands.
func openStream(w http.ResponseWriter) (*stream, error) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	s := &stream{w: w, rc: http.NewResponseController(w)}
	// A stream outlives the server's write deadline for ordinary answers.
	if err := s.rc.SetWriteDeadline(time.Time{}); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "this connection cannot stream")
	}
	w.WriteHeader(http.StatusOK)
	return s, s.comment("interlock")
}

// event sends one event. An id lets the client resume with Last-Event-ID.
func (s *stream) event(id, name string, data any) error {
	b, err := json.Marshal(data)
	if err != nil {
		return err
	}
	var out strings.Builder
	if id != "" {
		out.WriteString("id: " + id + "\n")
	}
	if name != "" {
		out.WriteString("event: " + name + "\n")
	}
	out.WriteString("data: ")
	out.Write(b)
	out.WriteString("\n\n")
	return s.send(out.String())
}

// comment keeps the connection alive.
func (s *stream) comment(text string) error { return s.send(": " + text + "\n\n") }

func (s *stream) send(text string) error {
	if err := s.rc.SetWriteDeadline(time.Now().Add(readerStalls)); err != nil {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	if err := s.rc.Flush(); err != nil {
		return err
	}
	return s.rc.SetWriteDeadline(time.Time{}) // it would outlive the stream, and meet the connection's next answer
}
