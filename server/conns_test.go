package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestShutdownDoesNotWaitForConnectionsWithoutARequest: http.Server alone would wait five seconds.
func TestShutdownDoesNotWaitForConnectionsWithoutARequest(t *testing.T) {
	var u unused
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan struct{}, 1)
	srv := &http.Server{ReadHeaderTimeout: time.Minute, ConnState: func(c net.Conn, s http.ConnState) {
		u.note(c, s)
		if s == http.StateNew {
			seen <- struct{}{}
		}
	}}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	<-seen
	u.close()
	// The other side sees the end before any shutdown.
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("the connection is open: %v", err)
	}
	if err := srv.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Fatal(err)
	}
}
