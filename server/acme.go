package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/retry"
)

// acmeWaits is how long a domain whose certificate was refused is left alone: authorities lock out who
// asks again at each handshake. The first is longer than the library itself remembers a failure.
var acmeWaits = [...]time.Duration{2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour}

// checkACME refuses settings of the certificate authority that do not fit together.
func (c *Config) checkACME() error {
	if len(c.ACMEDomains) == 0 {
		for flag, given := range map[string]bool{"acme-email": c.ACMEEmail != "", "acme-directory": c.ACMEDirectory != ""} {
			if given {
				return fault.New(fault.Invalid, "--%s goes with --acme-domain", flag).WithField(flag).WithHint("name the domain of this server with --acme-domain")
			}
		}
		return nil
	}
	if c.TLSCert != "" || c.TLSSelfSigned {
		return fault.New(fault.Invalid, "--acme-domain excludes --tls-cert and --tls-self-signed: a certificate comes from one place").WithField("acme-domain").
			WithHint("choose one of the three")
	}
	for i, d := range c.ACMEDomains {
		d = strings.ToLower(strings.TrimSuffix(d, "."))
		if err := checkDomain(d); err != nil {
			return err
		}
		c.ACMEDomains[i] = d
	}
	if c.ACMEDirectory != "" {
		u, err := url.Parse(c.ACMEDirectory)
		if err != nil || u.Host == "" || u.Scheme != "https" && !(u.Scheme == "http" && isLoopback(u.Hostname())) {
			return fault.New(fault.Invalid, "--acme-directory %q is no https address", c.ACMEDirectory).WithField("acme-directory").
				WithHint("as in https://ca.internal/acme/acme/directory")
		}
	}
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Scheme != "https" || !slices.Contains(c.ACMEDomains, strings.ToLower(u.Hostname())) {
		return fault.New(fault.Invalid, "--public-url is %q, which is not https on a domain of --acme-domain (%s)", c.PublicURL, strings.Join(c.ACMEDomains, ", ")).
			WithField("public-url").WithHint("machines are told that address and check its certificate: --public-url https://%s", c.ACMEDomains[0])
	}
	return nil
}

// checkDomain refuses what no public authority certifies by a challenge of these kinds.
func checkDomain(d string) error {
	bad := func(why, hint string) error {
		return fault.New(fault.Invalid, "--acme-domain %q %s", d, why).WithField("acme-domain").WithHint("%s", hint)
	}
	switch {
	case net.ParseIP(d) != nil:
		return bad("is an address, not a name", "name the domain that leads here, or use --tls-self-signed")
	case strings.Contains(d, "*"):
		return bad("is a wildcard, which needs a DNS challenge", "name each domain")
	case strings.ContainsFunc(d, func(r rune) bool { return r > 0x7f }):
		return bad("is not ASCII", "write it in its xn-- form")
	case strings.ContainsAny(d, ":/@ ") || !strings.Contains(d, ".") || slices.Contains(strings.Split(d, "."), "") || len(d) > 253:
		return bad("is no domain name", "as in fleet.example.com, without scheme and port")
	}
	return nil
}

// source gives the certificate for a handshake; *autocert.Manager is one.
type source interface {
	GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error)
}

// certifier has the certificates of an ACME authority: obtained on the first need, kept under the data
// folder, renewed by themselves.
type certifier struct {
	source  source
	domains []string
	clock   clock.Clock
	log     *slog.Logger
	// challenges answers the authority on plain http, and gives everything else to next.
	challenges func(next http.Handler) http.Handler
	wire       *acmeWire // to the authority

	mu     sync.Mutex
	failed map[string]refusal // by domain
}

// refusal is why a domain has no certificate, and when that is asked again.
type refusal struct {
	err   error
	times int
	again time.Time
}

// certifier makes one for the domains of the configuration; nil without any.
func (c *Config) certifier() (*certifier, error) {
	if len(c.ACMEDomains) == 0 {
		return nil, nil
	}
	dir := filepath.Join(c.Data, "tls", "acme") // it holds keys
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make %s: %w", dir, err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("close %s to others: %w", dir, err)
	}
	wire := newACMEWire(http.DefaultTransport)
	m := &autocert.Manager{
		Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(dir), HostPolicy: autocert.HostWhitelist(c.ACMEDomains...), Email: c.ACMEEmail,
		Client: &acme.Client{
			DirectoryURL: c.ACMEDirectory, UserAgent: "interlock/" + c.Version,
			HTTPClient: &http.Client{Transport: wire, Timeout: time.Minute},
		},
	}
	if c.ACMEDirectory == "" {
		m.Client.DirectoryURL = autocert.DefaultACMEDirectory
	}
	return &certifier{
		source: m, domains: c.ACMEDomains, clock: c.Clock, log: c.Logger, challenges: m.HTTPHandler, wire: wire, failed: map[string]refusal{},
	}, nil
}

// config is the TLS side of a server with these certificates.
func (c *certifier) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: c.certificate, NextProtos: []string{"h2", "http/1.1", acme.ALPNProto},
	}
}

// certificate is the one for a handshake. A caller that names no server, as by an address, gets that of
// the first domain and can see for itself who answers.
func (c *certifier) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}) {
		return c.source.GetCertificate(hello) // the authority, which checks that the domain is ours
	}
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	if name == "" {
		name = c.domains[0]
	}
	if !slices.Contains(c.domains, name) {
		return nil, fmt.Errorf("no certificate is for %q", name)
	}
	c.mu.Lock()
	last := c.failed[name]
	c.mu.Unlock()
	if last.err != nil && c.clock.Now().Before(last.again) {
		return nil, last.err
	}
	// One kind of key for everybody, so that no caller makes us order a second certificate.
	cert, err := c.source.GetCertificate(&tls.ClientHelloInfo{
		ServerName: name, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
	})
	c.note(name, err)
	return cert, err
}

// note remembers a refusal, and logs one that is not the echo of another handshake's.
func (c *certifier) note(name string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.failed, name)
		return
	}
	now, r := c.clock.Now(), c.failed[name]
	if now.Before(r.again) {
		return // handshakes that waited for the same answer
	}
	wait := acmeWaits[min(r.times, len(acmeWaits)-1)]
	c.failed[name] = refusal{err: err, times: r.times + 1, again: now.Add(wait)}
	c.log.Warn("no certificate from the ACME authority: it must reach port 443 of the domain here, or port 80 with --http-listen",
		slog.String("domain", name), slog.Any("cause", err), slog.String("reason", c.wire.said()), slog.Duration("againIn", wait))
}

// run obtains the certificates ahead of the first handshake, and tries on where that fails, until ctx ends.
func (c *certifier) run(ctx context.Context) error {
	defer c.wire.cut()
	defer context.AfterFunc(ctx, c.wire.cut)()
	for _, d := range c.domains {
		for ctx.Err() == nil {
			cert, err := c.certificate(&tls.ClientHelloInfo{ServerName: d})
			if err == nil {
				if cert.Leaf != nil {
					c.log.Info("certificate", slog.String("domain", d), slog.Time("validUntil", cert.Leaf.NotAfter))
				}
				break
			}
			c.mu.Lock()
			wait := c.failed[d].again.Sub(c.clock.Now())
			c.mu.Unlock()
			if retry.Sleep(ctx, c.clock, max(wait, time.Second)) != nil {
				return nil
			}
		}
	}
	<-ctx.Done()
	return nil
}

// front is the plain http side: the authority's challenges, and for everybody else the way to https.
func front(publicURL string, certs *certifier) http.Handler {
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			http.Redirect(w, r, publicURL+r.URL.RequestURI(), http.StatusFound)
			return
		}
		// A credential that came this way was readable already; it is not sent on.
		http.Error(w, "this server speaks https: "+publicURL, http.StatusBadRequest)
	})
	if certs == nil {
		return h
	}
	h = certs.challenges(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host, _, err := net.SplitHostPort(r.Host); err == nil { // an authority of one's own may look at another port
			r.Host = host
		}
		h.ServeHTTP(w, r)
	})
}

// listenFront opens the plain http side; nil when none was asked for.
func (c *Config) listenFront() (net.Listener, error) {
	if c.HTTPListen == "" {
		return nil, nil
	}
	l, err := listenOn(c.HTTPListen)
	if e := (*fault.Error)(nil); errors.As(err, &e) {
		err = e.WithField("http-listen")
	}
	return l, err
}
