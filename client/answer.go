package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"interlock.sh/fault"
)

const (
	maxErrorBody       = 1 << 20
	retryAfterDetail   = "retryAfterSeconds"
	errHTTPToHTTPSText = "http: server gave HTTP response to HTTPS client"
)

// StatusError is the cause of every error that came as an HTTP answer: what stood on the wire,
// beside the fault that says what it means.
type StatusError struct {
	Status    int
	RequestID string
	// Interposed is set when not the control plane answered but something in front of it.
	Interposed bool
}

// Error names the status and the request.
func (e *StatusError) Error() string {
	return fmt.Sprintf("status %d, request %s", e.Status, e.RequestID)
}

// StatusOf is the HTTP status that err came with; 0 when there was no answer.
func StatusOf(err error) int {
	var s *StatusError
	if errors.As(err, &s) {
		return s.Status
	}
	return 0
}

// RetryAfter is how long the server asked to wait; 0 when it did not.
func RetryAfter(err error) time.Duration {
	var f *fault.Error
	if !errors.As(err, &f) {
		return 0
	}
	var seconds float64
	switch v := f.Details[retryAfterDetail].(type) {
	case float64:
		seconds = v
	case int:
		seconds = float64(v)
	case int64:
		seconds = float64(v)
	}
	if !(seconds > 0) || math.IsInf(seconds, 0) {
		return 0
	}
	return time.Duration(min(seconds, 24*3600) * float64(time.Second))
}

// Transient tells whether the same call may succeed later without anybody changing anything: the
// server is away, starting, busy or rate limiting, or something in between answered.
func Transient(err error) bool {
	switch fault.CodeOf(err) {
	case fault.Unavailable, fault.CaptivePortal, fault.RateLimited, fault.QueueFull, fault.Unknown:
		return true
	}
	switch StatusOf(err) {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// decode reads a 2xx answer into out.
func (c *Client) decode(ctx context.Context, resp *http.Response, out any) error {
	if resp.StatusCode == http.StatusNoContent || resp.Request.Method == http.MethodHead {
		return nil
	}
	if isHTML(resp.Header) { // also where nothing is expected: a report that a portal swallowed was not taken
		return interposed(resp, c.base)
	}
	if out == nil {
		// Drained, so that the connection is used again.
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxErrorBody))
		return nil
	}
	if !isJSON(resp.Header) {
		return interposed(resp, c.base)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	if err != nil {
		return c.unreachable(ctx, resp.Request.Method, resp.Request.URL.Path, err)
	}
	if len(body) > maxResponse {
		return fault.New(fault.TooLarge, "the server's answer is larger than the limit of %d bytes", maxResponse).
			With("limit", maxResponse).WithHint("ask for fewer items at once")
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("decode the answer of %s %s: %w", resp.Request.Method, resp.Request.URL.Path, err)
	}
	return nil
}

// refusal turns an answer outside 2xx into the fault it stands for. It reads the body, and leaves
// closing it to the caller.
func refusal(resp *http.Response, base string, now time.Time) *fault.Error {
	f := readRefusal(resp, base)
	if d := retryAfter(resp.Header, now); d > 0 && f.Details[retryAfterDetail] == nil {
		f = f.With(retryAfterDetail, d.Seconds())
	}
	return f
}

func readRefusal(resp *http.Response, base string) *fault.Error {
	if resp.StatusCode < 400 || isHTML(resp.Header) || resp.StatusCode == http.StatusNetworkAuthenticationRequired {
		return interposed(resp, base)
	}
	status := &StatusError{Status: resp.StatusCode, RequestID: requestID(resp)}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a torn error body still has its status
	var wire struct {
		Error *fault.Error `json:"error"`
	}
	if json.Unmarshal(body, &wire) == nil && wire.Error != nil && wire.Error.Message != "" {
		f := wire.Error
		if f.Code == "" {
			f.Code = fault.ForStatus(resp.StatusCode)
		}
		f.Cause = status
		return f
	}
	text := strings.TrimSpace(string(body[:min(len(body), 200)]))
	if !isText(resp.Header) || text == "" {
		text = http.StatusText(resp.StatusCode)
	}
	return fault.Wrap(status, fault.ForStatus(resp.StatusCode), "%s answered %d: %s", base, resp.StatusCode, text)
}

// interposed is the fault for an answer that no control plane gives: a page of a captive portal, a
// proxy or a load balancer. A portal has a code of its own, since a person can end it. A limit keeps its
// meaning; anything else says nothing about the thing that was asked for, so it must never read as "not
// found" or "revoked".
func interposed(resp *http.Response, base string) *fault.Error {
	status := &StatusError{Status: resp.StatusCode, RequestID: requestID(resp), Interposed: true}
	if isPortal(resp) {
		return portal(resp, base, status)
	}
	code := fault.Unavailable
	switch resp.StatusCode {
	case http.StatusRequestEntityTooLarge:
		code = fault.TooLarge
	case http.StatusTooManyRequests:
		code = fault.RateLimited
	}
	what := resp.Header.Get("Content-Type")
	if what == "" {
		what = "no content type"
	}
	f := fault.Wrap(status, code, "something between us and the server %s answered (status %d, %s)", base, resp.StatusCode, what)
	if to := resp.Header.Get("Location"); to != "" && resp.StatusCode < 400 {
		return f.WithHint("it redirects to %s: if that is the server, use its address", to)
	}
	return f.WithHint("check the address and the proxy, and sign in if this network asks for it")
}

func noAnswer(base string, after time.Duration) *fault.Error {
	return fault.New(fault.Unavailable, "%s did not answer within %s", base, after).
		WithHint("check the server and the network, then try again")
}

// unreachable turns a failed exchange into the fault that names the server and the way out; the
// caller's own cancellation stays what it is.
func (c *Client) unreachable(ctx context.Context, method, path string, err error) error {
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		var f *fault.Error
		if errors.As(cause, &f) {
			return f // our own timeout
		}
		return fmt.Errorf("%s %s: %w", method, path, cause)
	}
	var f *fault.Error
	if errors.As(err, &f) {
		return f // the pin
	}
	var cert *tls.CertificateVerificationError
	var dns *net.DNSError
	var timeout net.Error
	away := func(why string) *fault.Error {
		return fault.Wrap(err, fault.Unavailable, "cannot reach %s: %s", c.base, why)
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return away("connection refused").
			WithHint("is the server running there? start it with `interlock serve`, or name another with --api or INTERLOCK_URL")
	case errors.As(err, &cert) && expired(cert.Err):
		return c.outOfTime(ctx, err, cert)
	case errors.As(err, &cert):
		return away("its certificate is not trusted here: " + cert.Err.Error()).
			WithHint("for a server with its own authority give its pin (--pin sha256//…, as it prints it); if this network asks to sign in, do that")
	case strings.Contains(err.Error(), errHTTPToHTTPSText):
		return away("it speaks plain http, not https").WithHint("use its http address if that is intended")
	case errors.As(err, &dns):
		return away("the name " + dns.Name + " does not resolve").WithHint("check the address and the network")
	case errors.As(err, &timeout) && timeout.Timeout():
		return away("no answer in time").WithHint("check the server and the network, then try again")
	}
	return away("the connection broke: " + rootText(err)).WithHint("check the server and the network, then try again")
}

// rootText is the innermost error's text: the outer ones repeat method and URL.
func rootText(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

func retryAfter(h http.Header, now time.Time) time.Duration {
	v := h.Get("Retry-After")
	if n, err := strconv.Atoi(v); err == nil {
		return time.Duration(n) * time.Second
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	// The server's own clock, when it shows it, is what the date was computed from.
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return at.Sub(now)
}

func requestID(resp *http.Response) string {
	if id := resp.Header.Get(requestIDHeader); id != "" || resp.Request == nil {
		return id
	}
	return resp.Request.Header.Get(requestIDHeader)
}

func mediaType(h http.Header) string {
	t, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return t
}

func isJSON(h http.Header) bool {
	t := mediaType(h)
	return t == "application/json" || strings.HasSuffix(t, "+json")
}

func isHTML(h http.Header) bool {
	t := mediaType(h)
	return t == "text/html" || t == "application/xhtml+xml"
}

func isText(h http.Header) bool { return strings.HasPrefix(mediaType(h), "text/") }
