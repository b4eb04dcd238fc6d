package fakellama

import (
	"bufio"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Control steps gated fakes from the test. One Control may serve several fakes; they share its steps.
type Control struct {
	path   string
	load   chan struct{}
	steps  chan struct{}
	opened chan struct{}
	done   chan struct{}
	once   struct{ load, open sync.Once }
}

// maxSteps bounds the steps given ahead of the tokens that take them.
const maxSteps = 1 << 16

// NewControl listens for gated fakes until the test ends. Put its Path into Config.Control.
func NewControl(t testing.TB) *Control {
	t.Helper()
	dir, err := os.MkdirTemp("", "fl") // not t.TempDir: a socket's path has 104 bytes at most
	if err != nil {
		t.Fatalf("make the control's folder: %v", err)
	}
	c := &Control{
		path: filepath.Join(dir, "c"), load: make(chan struct{}), opened: make(chan struct{}),
		steps: make(chan struct{}, maxSteps), done: make(chan struct{}),
	}
	l, err := net.Listen("unix", c.path)
	if err != nil {
		t.Fatalf("listen for fakes: %v", err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		close(c.done)
		_ = l.Close()
		serving.Wait()
		_ = os.RemoveAll(dir)
	})
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { c.serve(conn) })
		}
	})
	return c
}

// Path is the socket's path.
func (c *Control) Path() string { return c.path }

// FinishLoad lets every fake with GateLoad finish loading.
func (c *Control) FinishLoad() { c.once.load.Do(func() { close(c.load) }) }

// Step lets n more tokens pass.
func (c *Control) Step(n int) {
	for range n {
		c.steps <- struct{}{}
	}
}

// Open lets every token pass from now on.
func (c *Control) Open() { c.once.open.Do(func() { close(c.opened) }) }

// serve answers one wait of a fake: the gate's name comes in, a line goes out when it opens.
func (c *Control) serve(conn net.Conn) {
	defer conn.Close()
	gate, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return
	}
	gone := make(chan struct{})
	go func() { // ends with the connection, which this function closes
		defer close(gone)
		_, _ = conn.Read(make([]byte, 1))
	}()
	next, forGood := c.load, c.load
	if strings.TrimSpace(gate) == "token" {
		next, forGood = c.steps, c.opened
	}
	select {
	case <-next:
	case <-forGood:
	case <-gone:
		return
	case <-c.done:
	}
	_, _ = conn.Write([]byte("go\n"))
}

// await blocks a fake at a gate until the test opens it, the context ends, or the test is gone.
func await(ctx context.Context, path, gate string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return ctx.Err() // no test listens any more: the gate is open
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := conn.Write([]byte(gate + "\n")); err != nil {
		return ctx.Err()
	}
	_, _ = bufio.NewReader(conn).ReadString('\n')
	return ctx.Err()
}
