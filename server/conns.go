package server

import (
	"net"
	"net/http"
	"sync"
)

// unused are connections that were dialled and carried no request yet. http.Server's Shutdown waits
// five seconds for them; clients dial some in advance, and nothing is lost by closing those.
type unused struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// note follows a connection's state; it is a http.Server's ConnState.
func (u *unused) note(c net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if state != http.StateNew {
		delete(u.conns, c)
		return
	}
	if u.conns == nil {
		u.conns = map[net.Conn]struct{}{}
	}
	u.conns[c] = struct{}{}
}

// close ends them.
func (u *unused) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.conns {
		_ = c.Close() // its peer dials again
	}
}
