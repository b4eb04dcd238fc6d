package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"interlock.sh/fault"
)

const (
	// ClockLimit is how far this machine's clock may be off before it is worth a word.
	ClockLimit = 2 * time.Minute

	probeWithin = 5 * time.Second
)

// ClockWords says how far this machine's clock was off at the last answer, as in "this machine's clock is
// 20 min behind the control plane's". It is empty within ClockLimit, and before the first answer.
func (c *Client) ClockWords() string { return clockWords(c.ServerTimeSkew()) }

func clockWords(skew time.Duration) string {
	if skew.Abs() <= ClockLimit {
		return ""
	}
	side := "behind"
	if skew < 0 {
		side = "ahead of"
	}
	return fmt.Sprintf("this machine's clock is %s %s the control plane's", roughly(skew.Abs()), side)
}

func roughly(d time.Duration) string {
	switch {
	case d < 90*time.Minute:
		return fmt.Sprintf("%d min", int(d.Round(time.Minute)/time.Minute))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Round(time.Hour)/time.Hour))
	}
	return fmt.Sprintf("%d days", int(d.Round(24*time.Hour)/(24*time.Hour)))
}

const setClock = "set the clock (timedatectl set-ntp true, or the system's date settings), then try again"

// blameClock adds to a refused credential that the clock is off: whatever looks expired may not be.
func (c *Client) blameClock(f *fault.Error) *fault.Error {
	words := c.ClockWords()
	if words == "" || f.Code != fault.Unauthenticated && f.Code != fault.Revoked {
		return f
	}
	hint := words + ": " + setClock
	if f.Hint != "" {
		hint = f.Hint + "; also, " + hint
	}
	return f.WithHint("%s", hint)
}

// expired reports whether a certificate was refused for its dates alone.
func expired(err error) bool {
	var invalid x509.CertificateInvalidError
	return errors.As(err, &invalid) && invalid.Reason == x509.Expired
}

// outOfTime is the fault for a certificate whose dates do not hold here: by its own clock the server tells
// whether the certificate or this machine's clock is wrong.
func (c *Client) outOfTime(ctx context.Context, err error, cert *tls.CertificateVerificationError) *fault.Error {
	leaf := cert.UnverifiedCertificates[0]
	if skew, known := c.probeClock(ctx); known {
		if words := clockWords(skew); words != "" {
			c.skew.Store(int64(skew))
			return fault.Wrap(err, fault.Unavailable, "cannot reach %s: %s, so its certificate seems out of date", c.base, words).
				With("clockSkewSeconds", int64(skew/time.Second)).WithHint(setClock)
		}
	}
	if now := c.clock.Now(); now.Before(leaf.NotBefore) {
		return fault.Wrap(err, fault.Unavailable, "cannot reach %s: its certificate is valid from %s on, and here it is %s",
			c.base, leaf.NotBefore.UTC().Format(time.DateTime), now.UTC().Format(time.DateTime)).
			WithHint("check the clock of this machine, and the server's")
	}
	return fault.Wrap(err, fault.Unavailable, "cannot reach %s: its certificate expired at %s UTC", c.base, leaf.NotAfter.UTC().Format(time.DateTime)).
		WithHint("renew the server's certificate; the clock of this machine says %s UTC", c.clock.Now().UTC().Format(time.DateTime))
}

// probeClock asks the server for its time without trusting the dates of its certificate, and without a
// credential. The answer counts only when the certificate is good in all else at that very time: then
// nobody but the server, or who could answer in its place anyway, can have said it.
func (c *Client) probeClock(ctx context.Context) (skew time.Duration, known bool) {
	used, ok := c.http.Transport.(*http.Transport)
	base, err := url.Parse(c.base)
	if !ok || err != nil {
		return 0, false
	}
	t := used.Clone()
	defer t.CloseIdleConnections()
	roots := t.TLSClientConfig.RootCAs
	t.TLSClientConfig.InsecureSkipVerify = true
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, c.base+"/q/health", nil)
	if err != nil {
		return 0, false
	}
	sent := c.clock.Now()
	resp, err := t.RoundTrip(req)
	if err != nil {
		return 0, false
	}
	defer resp.Body.Close()
	at, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil || resp.TLS == nil || len(resp.TLS.PeerCertificates) == 0 {
		return 0, false
	}
	opts := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool(), DNSName: base.Hostname(), CurrentTime: at}
	for _, cert := range resp.TLS.PeerCertificates[1:] {
		opts.Intermediates.AddCert(cert)
	}
	if _, err := resp.TLS.PeerCertificates[0].Verify(opts); err != nil {
		return 0, false
	}
	return skewOf(at, sent, c.clock.Now()), true
}
