package files_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"interlock.sh/server/files"
)

// cutter is a TCP proxy that breaks each connection after a number of bytes in one direction.
type cutter struct {
	url string

	mu       sync.Mutex
	up, down []int64 // limits of the next connections towards the server and back; none means no limit
}

func (p *cutter) cut(up, down []int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up, p.down = up, down
}

func (p *cutter) next() (up, down int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	take := func(limits *[]int64) int64 {
		if len(*limits) == 0 {
			return 1 << 60
		}
		n := (*limits)[0]
		*limits = (*limits)[1:]
		return n
	}
	return take(&p.up), take(&p.down)
}

func newCutter(t testing.TB, target string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cutter{url: "http://" + l.Addr().String()}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			front, err := l.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("tcp", strings.TrimPrefix(target, "http://"))
			if err != nil {
				_ = front.Close()
				continue
			}
			up, down := p.next()
			pipe := func(to, from net.Conn, limit int64) {
				_, _ = io.CopyN(to, from, limit)
				_ = front.Close()
				_ = back.Close()
			}
			all.Go(func() { pipe(back, front, up) })
			all.Go(func() { pipe(front, back, down) })
		}
	})
	return p
}

// restartable serves a store that can be stopped and opened anew, as a killed and restarted server.
type restartable struct {
	t       testing.TB
	o       files.Options
	handler atomic.Pointer[http.Handler]
	store   *files.Store
}

func newRestartable(t testing.TB, o files.Options) *restartable {
	r := &restartable{t: t, o: o}
	r.restart()
	return r
}

func (r *restartable) restart() {
	r.store = newStore(r.t, r.o)
	h := routes(r.store)
	r.handler.Store(&h)
}

func (r *restartable) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	(*r.handler.Load()).ServeHTTP(w, q)
}
