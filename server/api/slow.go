package api

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"interlock.sh/fault"
)

const (
	// bodyTime is how long a body of defaultBody at most may take to come in; a larger one has more.
	bodyTime = 30 * time.Second
	// slowest is how many bytes a second a large body may come in with.
	slowest = 128 << 10
)

// bodyTime is how long the bodies of a rule's route may take.
func (a *API) bodyTime(r rule) time.Duration {
	return a.info.BodyTime + time.Duration((r.limit()-defaultBody)/slowest)*time.Second
}

// timedBody is a body with a deadline: whoever sends it a byte at a time would hold a connection and its
// handler for ever. It is real time, as the connection's is.
type timedBody struct {
	io.ReadCloser
	rc *http.ResponseController
}

// timed gives a request's body its deadline. A connection that knows none has none, such as a test's.
func timed(w http.ResponseWriter, body io.ReadCloser, limit time.Duration) io.ReadCloser {
	rc := http.NewResponseController(w)
	if rc.SetReadDeadline(time.Now().Add(limit)) != nil {
		return body
	}
	return &timedBody{body, rc}
}

// Read lifts the deadline at the body's end: the connection is read on to see whether the caller went
// away, and a deadline that passes then would look as if it had. After another error it stays, for what
// the server reads of the rest.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		_ = b.rc.SetReadDeadline(time.Time{}) // the connection is gone: its context says so
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = tooSlow(err)
	}
	return n, err
}

func tooSlow(cause error) *fault.Error {
	return fault.Wrap(cause, fault.Malformed, "the body did not come in whole in the time that the call gives it").
		WithField("body").WithHint("send it again on a faster connection, or in smaller pieces")
}
