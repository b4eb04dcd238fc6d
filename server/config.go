package server

import (
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/tasks"
)

// Config says how a control plane runs. Zero fields have the defaults that the flags document.
type Config struct {
	Data           string         // folder of the database and the stored files
	Listen         string         // host:port; default 127.0.0.1:8090
	PublicURL      string         // what install lines and links print; default from Listen
	TLSCert        string         // PEM files
	TLSKey         string         //
	TLSSelfSigned  bool           // an authority of its own under Data
	ACMEDomains    []string       // whose certificates come from an ACME authority
	ACMEEmail      string         // of whoever the authority may write to
	ACMEDirectory  string         // of the authority; default Let's Encrypt
	HTTPListen     string         // host:port of plain http: challenges, and redirects to PublicURL
	TrustedProxies []netip.Prefix // whose X-Forwarded-For is believed
	InsecureHTTP   bool           // serve plain http off loopback, by the operator's choice
	Assets         string         // folder of the builds that machines install from
	Lease          time.Duration  // how long an attempt is a worker's without a renewal; default tasks.Lease
	Version        string
	Logger         *slog.Logger
	Clock          clock.Clock

	// Listening is called once, as soon as requests are answered, with the base URL and the pin of a
	// self-signed server ("" otherwise).
	Listening func(base, pin string)
	// OwnerToken is called once with the owner token of a first start.
	OwnerToken func(token string)
}

// A lease that is shorter is lost to a busy moment; a longer one keeps the work of a dead worker waiting.
const (
	minLease = time.Second
	maxLease = time.Hour
)

func (c *Config) normalize() error {
	if c.Listen == "" {
		c.Listen = "127.0.0.1:8090"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = clock.System
	}
	if c.Lease == 0 {
		c.Lease = tasks.Lease
	}
	if c.Lease < minLease || c.Lease > maxLease {
		return fault.New(fault.Invalid, "--lease is %v; it goes from %v to %v", c.Lease, minLease, maxLease).WithField("lease").
			WithHint("leave it out for %v", tasks.Lease)
	}
	if c.Data == "" {
		return fault.New(fault.Invalid, "no data folder is named").WithField("data").WithHint("--data <folder>")
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fault.New(fault.Invalid, "--listen %q is no host:port: %v", c.Listen, err).WithField("listen")
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return fault.New(fault.Invalid, "--tls-cert and --tls-key go together").WithField("tls-cert")
	}
	if c.TLSCert != "" && c.TLSSelfSigned {
		return fault.New(fault.Invalid, "--tls-self-signed and --tls-cert exclude each other").WithField("tls-self-signed")
	}
	if err := c.checkACME(); err != nil {
		return err
	}
	if c.HTTPListen != "" {
		if _, _, err := net.SplitHostPort(c.HTTPListen); err != nil {
			return fault.New(fault.Invalid, "--http-listen %q is no host:port: %v", c.HTTPListen, err).WithField("http-listen").WithHint("as in :80")
		}
		if !c.secure() {
			return fault.New(fault.Invalid, "--http-listen sends callers to https, and this server speaks plain http").WithField("http-listen").
				WithHint("give --acme-domain, --tls-cert or --tls-self-signed, or leave it out")
		}
	}
	if !c.secure() && !isLoopback(host) && !c.InsecureHTTP {
		return fault.New(fault.Invalid, "plain http is served on loopback only, and --listen is %s: keys would cross the network in the clear", c.Listen).WithField("listen").
			WithHint("give --tls-cert and --tls-key, --acme-domain, or --tls-self-signed, or listen on 127.0.0.1 behind a proxy that speaks https (--insecure-http if you must)")
	}
	return c.normalizePublicURL()
}

func (c *Config) secure() bool { return c.TLSCert != "" || c.TLSSelfSigned || len(c.ACMEDomains) > 0 }

func (c *Config) normalizePublicURL() error {
	if c.PublicURL == "" {
		return nil // known once the port is
	}
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return fault.New(fault.Invalid, "--public-url %q is no http(s) address", c.PublicURL).WithField("public-url").WithHint("for example https://interlock.example.org")
	}
	if u.Scheme == "http" && !isLoopback(u.Hostname()) && !c.InsecureHTTP {
		return fault.New(fault.Invalid, "--public-url %s is plain http off loopback: every key that a machine sends could be read", c.PublicURL).WithField("public-url").
			WithHint("use https, or --insecure-http if you must")
	}
	c.PublicURL = strings.TrimRight(c.PublicURL, "/")
	return nil
}

// isLoopback reports whether a host name or address never leaves the machine.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
