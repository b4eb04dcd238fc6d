package server

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"testing"
	"time"

	"interlock.sh/internal/clock"
)

// issuer is a source of certificates that a test makes refuse.
type issuer struct {
	err   error
	asked int
}

func (i *issuer) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	i.asked++
	if i.err != nil {
		return nil, i.err
	}
	return &tls.Certificate{}, nil
}

// A domain that was refused is left alone for longer and longer; the authority's own questions always pass.
func TestARefusedDomainIsLeftAlone(t *testing.T) {
	fake := clock.NewFake(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	i := &issuer{err: errors.New("rate limited")}
	c := &certifier{source: i, domains: []string{"a.example.com"}, clock: fake, log: slog.New(slog.DiscardHandler), wire: newACMEWire(nil), failed: map[string]refusal{}}
	knock := func(protos ...string) error {
		_, err := c.certificate(&tls.ClientHelloInfo{ServerName: "a.example.com", SupportedProtos: protos})
		return err
	}
	for n, wait := range []time.Duration{2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, time.Hour} {
		if err := knock(); !errors.Is(err, i.err) || i.asked != n+1 {
			t.Fatalf("try %d: asked %d times, %v", n+1, i.asked, err)
		}
		fake.Advance(wait - time.Second)
		if err := knock(); !errors.Is(err, i.err) || i.asked != n+1 {
			t.Fatalf("a second before %v: asked %d times, %v", wait, i.asked, err)
		}
		fake.Advance(time.Second)
	}
	asked := i.asked
	if _ = knock("acme-tls/1"); i.asked != asked+1 {
		t.Error("the authority's question did not pass")
	}
	i.err = nil
	if err := knock(); err != nil || len(c.failed) != 0 {
		t.Errorf("%v, %v", err, c.failed)
	}
}
