package server

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"interlock.sh/fault"
)

// listen opens the address; "localhost" means 127.0.0.1 and, where there is one, ::1 on the same port.
func listen(addr string) ([]net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fault.New(fault.Invalid, "--listen %q is no host:port", addr).WithField("listen")
	}
	if host != "localhost" {
		l, err := listenOn(net.JoinHostPort(host, port))
		if err != nil {
			return nil, err
		}
		return []net.Listener{l}, nil
	}
	first, err := listenOn(net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return nil, err
	}
	_, port, _ = net.SplitHostPort(first.Addr().String()) // what 0 became
	second, err := listenOn(net.JoinHostPort("::1", port))
	switch {
	case err == nil:
		return []net.Listener{first, second}, nil
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EAFNOSUPPORT):
		return []net.Listener{first}, nil // a machine without IPv6
	}
	return nil, errors.Join(err, first.Close())
}

func listenOn(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err == nil {
		return l, nil
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		_, port, _ := net.SplitHostPort(addr)
		n, _ := strconv.Atoi(port)
		return nil, fault.Wrap(err, fault.Conflict, "%s is in use by %s", addr, portOwner(n)).WithField("listen").
			WithHint("stop it, or choose another port with --listen")
	}
	if errors.Is(err, syscall.EACCES) {
		return nil, fault.Wrap(err, fault.Invalid, "may not listen on %s", addr).WithField("listen").WithHint("ports below 1024 need privileges: choose a higher one")
	}
	return nil, fault.Wrap(err, fault.Invalid, "listen on %s: %v", addr, err).WithField("listen")
}

// baseURL is how the server is reached when nothing else was said.
func baseURL(secure bool, asked string, bound net.Addr) string {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(bound.String())
	if h, _, err := net.SplitHostPort(asked); err == nil && h == "localhost" {
		host = h
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return fmt.Sprintf("%s://%s", scheme, net.JoinHostPort(host, port))
}

func closeAll(ls []net.Listener) {
	for _, l := range ls {
		_ = l.Close() // nothing was accepted yet
	}
}
