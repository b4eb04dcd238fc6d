package client

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
)

const pinPrefix = "sha256//"

// isLoopback is true for localhost and for literal addresses of this machine; no name is resolved,
// since an answer of DNS proves nothing.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

func parsePins(raw string) ([]string, error) {
	if strings.TrimSpace(raw) == "" {
		return nil, nil
	}
	var pins []string
	for p := range strings.SplitSeq(raw, ";") {
		p = strings.TrimSpace(p)
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(p, pinPrefix))
		if !strings.HasPrefix(p, pinPrefix) || err != nil || len(sum) != sha256.Size {
			return nil, fault.New(fault.Invalid, "%q is no pin", p).WithField("pin").
				WithHint("a pin is sha256// and 44 base64 characters, as the server prints it")
		}
		pins = append(pins, p)
	}
	return pins, nil
}

// PinOf is the pin of a certificate's public key, as Options.Pin takes it.
func PinOf(rawSubjectPublicKeyInfo []byte) string {
	sum := sha256.Sum256(rawSubjectPublicKeyInfo)
	return pinPrefix + base64.StdEncoding.EncodeToString(sum[:])
}

func newTransport(base *url.URL, pins []string, clk clock.Clock) *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	t := &http.Transport{
		DialContext:           dialer.DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: 2 * time.Second,
		IdleConnTimeout:       60 * time.Second,
		MaxIdleConnsPerHost:   16,
		WriteBufferSize:       64 << 10,
		ReadBufferSize:        64 << 10,
		ForceAttemptHTTP2:     true, // own dialer and TLS settings turn it off otherwise
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12, Time: clk.Now},
		// One HTTP/2 connection carries everything, so a dead one must be noticed.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 20 * time.Second, PingTimeout: 15 * time.Second},
	}
	if isLoopback(base.Hostname()) {
		t.DialContext = loopbackDial(dialer)
	} else {
		t.Proxy = http.ProxyFromEnvironment
	}
	if len(pins) > 0 {
		// The pin replaces the chain of authorities: VerifyConnection runs on every handshake,
		// resumed ones included.
		t.TLSClientConfig.InsecureSkipVerify = true
		t.TLSClientConfig.VerifyConnection = func(cs tls.ConnectionState) error { return checkPin(cs, pins) }
	}
	return t
}

// loopbackDial tries both families for the name localhost, whatever the hosts file says: a server
// may listen on one of them only.
func loopbackDial(d *net.Dialer) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(addr)
		if err != nil || !strings.EqualFold(host, "localhost") {
			return d.DialContext(ctx, network, addr)
		}
		var errs []error
		for _, ip := range []string{"127.0.0.1", "::1"} {
			conn, err := d.DialContext(ctx, network, net.JoinHostPort(ip, port))
			if err == nil {
				return conn, nil
			}
			errs = append(errs, err)
		}
		return nil, errors.Join(errs...)
	}
}

func checkPin(cs tls.ConnectionState, pins []string) error {
	if len(cs.PeerCertificates) == 0 {
		return fault.New(fault.Unavailable, "the server showed no certificate").WithField("pin")
	}
	got := PinOf(cs.PeerCertificates[0].RawSubjectPublicKeyInfo)
	if slices.Contains(pins, got) {
		return nil
	}
	// Unavailable, since a network that intercepts TLS goes away again; nothing was sent.
	want := strings.Join(pins, ";")
	return fault.New(fault.Unavailable, "the server's key is not the pinned one: pinned %s, got %s", want, got).
		WithField("pin").With("pinned", want).With("got", got).
		WithHint("when the server's key was replaced on purpose, use the new pin; else something stands between")
}
