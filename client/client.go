// Package client is the typed client of a control plane: the only door of the agent, the command
// line, the dashboard, the tray, Go workers and Go hosts.
//
// It owns the connection (loopback rule, key pin, proxies), the JSON call with its coded errors, the
// event stream, and the transfer of blobs. It decides nothing about tasks or fleets, holds no state
// on disk but the partial of a download, and never logs a credential or a body.
package client

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
)

// Options says which control plane to talk to and as whom.
type Options struct {
	// BaseURL is the origin, with a path when the control plane is not at the root:
	// "https://fleet.example.com".
	BaseURL string
	// Credential is sent as bearer; empty sends none.
	Credential string
	// Pin is the server key's pin in curl's --pinnedpubkey form: "sha256//" and the base64 of the
	// SHA-256 of the certificate's public key; several are separated by ";". With a pin the
	// key alone is checked, neither the certificate's authority nor its name.
	Pin string
	// InsecureHTTP allows plain http to a host that is not this machine.
	InsecureHTTP bool
	// UserAgent is the User-Agent header; "interlock-go" when empty.
	UserAgent string
	// Project is added to every call as the query parameter "project".
	Project string
	// Clock is the machine's own when nil.
	Clock clock.Clock
	// Logger gets retries and reconnects at debug level; nothing when nil.
	Logger *slog.Logger
}

// Client talks to one control plane. It is safe for concurrent use.
type Client struct {
	base       string
	credential string
	userAgent  string
	project    string
	http       *http.Client
	clock      clock.Clock
	log        *slog.Logger
	skew       atomic.Int64
}

// New checks the options and makes a client; it does not connect.
func New(o Options) (*Client, error) {
	base, err := parseBase(o.BaseURL, o.InsecureHTTP)
	if err != nil {
		return nil, err
	}
	pins, err := parsePins(o.Pin)
	if err != nil {
		return nil, err
	}
	if len(pins) > 0 && base.Scheme != "https" {
		return nil, fault.New(fault.Invalid, "a pin was given for %s, which has no TLS key to check", base).
			WithField("pin").WithHint("use the https address of the server, or drop the pin")
	}
	c := &Client{
		base:       strings.TrimRight(base.String(), "/"),
		credential: o.Credential,
		userAgent:  o.UserAgent,
		project:    o.Project,
		clock:      o.Clock,
		log:        o.Logger,
	}
	if c.userAgent == "" {
		c.userAgent = "interlock-go"
	}
	if c.clock == nil {
		c.clock = clock.System
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.http = &http.Client{
		Transport: newTransport(base, pins, c.clock),
		// A redirect would carry the credential to an address nobody chose.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// BaseURL is the control plane's address, without a slash at the end.
func (c *Client) BaseURL() string { return c.base }

// Project is the project that is added to every call; empty for none.
func (c *Client) Project() string { return c.project }

// WithCredential is the same client as somebody else; the two share their connections.
func (c *Client) WithCredential(credential string) *Client { return c.derive(credential, c.project) }

// WithProject is the same client for another project; the two share their connections.
func (c *Client) WithProject(project string) *Client { return c.derive(c.credential, project) }

func (c *Client) derive(credential, project string) *Client {
	d := &Client{
		base: c.base, credential: credential, userAgent: c.userAgent, project: project,
		http: c.http, clock: c.clock, log: c.log,
	}
	d.skew.Store(c.skew.Load())
	return d
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// ServerTimeSkew is how far the server's clock was ahead of this machine's at the last answer; zero
// before the first. It comes from the Date header, so differences below two seconds mean nothing.
func (c *Client) ServerTimeSkew() time.Duration { return time.Duration(c.skew.Load()) }

func parseBase(raw string, insecure bool) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fault.New(fault.Invalid, "%q is no server address", raw).WithField("baseUrl").
			WithHint("give scheme and host, as in https://fleet.example.com or http://localhost:8090")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fault.New(fault.Invalid, "a server address has no user, query or fragment").WithField("baseUrl").
			WithHint("give only scheme, host, port and path")
	}
	if u.Scheme == "http" && !insecure && !isLoopback(u.Hostname()) {
		return nil, fault.New(fault.Invalid,
			"%s is plain http to another machine: the credential would cross the network in clear", u).
			WithField("baseUrl").WithHint("use https, or --insecure-http to accept that")
	}
	return u, nil
}
