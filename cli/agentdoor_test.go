package cli

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/localapi"
)

// An update looks at the agents every 2 s, for hours: the looks share one connection.
func TestManyLooksAtAnAgentAreOneConnection(t *testing.T) {
	l := newLab(t)
	socket, err := l.home.Socket(l.e.Group, l.e.Role)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var made atomic.Int32
	s := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(localapi.Status{Pid: 1, Version: "1.0.0", Program: "/elsewhere/current/interlock"})
		}),
		ConnState: func(_ net.Conn, to http.ConnState) {
			if to == http.StateNew {
				made.Add(1)
			}
		},
	}
	go s.Serve(ln) //nolint:errcheck // ends with the test
	t.Cleanup(func() { _ = s.Close() })
	a := &agents{app: "/app", log: slog.New(slog.DiscardHandler), all: []enrollment.Enrollment{l.e}, damaged: []enrollment.Damaged{{Enrollment: l.e}}}
	for range 30 {
		all, err := a.Subjects(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		if h, err := all[0].Health(t.Context()); err != nil || h.Version != "1.0.0" {
			t.Fatal(h, err)
		}
	}
	if n := made.Load(); n != 1 {
		t.Errorf("30 looks made %d connections", n)
	}
}
