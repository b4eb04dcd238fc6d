package testkit

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports that FreePort gives lie below those that systems hand out by themselves: no client, and no listener on
// port 0, ever takes one.
const (
	firstPort = 20_000
	ports     = 6_000
)

// FreePort is a port of 127.0.0.1 where nothing listens, and which no other test is given, in whatever process,
// until this one ends. It is for programs that are told a port; who can listen on port 0 does that.
func FreePort(t testing.TB) int {
	t.Helper()
	began := rand.IntN(ports)
	for n := range ports {
		port := firstPort + (began+n)%ports
		// A datagram socket beside it stands for the promise: it goes with its process, however that ends.
		mark, err := net.ListenPacket("udp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+ports)))
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			_ = mark.Close()
			continue
		}
		_ = l.Close()
		t.Cleanup(func() { _ = mark.Close() })
		return port
	}
	t.Fatalf("none of the ports from %d to %d is free", firstPort, firstPort+ports-1)
	return 0
}
