package api

import (
	"net/http/httptest"
	"testing"
	"time"
)

// deadlines is a connection that keeps what was asked of it.
type deadlines struct {
	*httptest.ResponseRecorder
	at []time.Time
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.at = append(d.at, at)
	return nil
}

// A reader that takes nothing must not hold a stream for ever; one that reads has its time anew with
// every event, however long the stream lasts. Nothing of it is left for the connection's next answer.
func TestEveryWriteOfAStreamIsBounded(t *testing.T) {
	t.Parallel()
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	began := time.Now()
	s, err := openStream(w)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if last := w.at[len(w.at)-1]; !last.IsZero() {
			t.Errorf("between two writes there is a deadline, %v", last)
		}
		bounds := w.at[:0]
		for _, at := range w.at {
			if !at.IsZero() {
				bounds = append(bounds, at)
			}
		}
		if len(bounds) != 1 || bounds[0].Before(began.Add(readerStalls)) || bounds[0].After(time.Now().Add(readerStalls)) {
			t.Errorf("a write has until %v", bounds)
		}
		w.at = nil
		if err := s.event("", "tasks", struct{}{}); err != nil {
			t.Fatal(err)
		}
	}
}
