package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"interlock.sh/internal/clock"
	"interlock.sh/internal/ident"
	"interlock.sh/internal/retry"
)

const (
	defaultTimeout  = 60 * time.Second
	maxResponse     = 16 << 20 // bytes of an answer that is decoded
	requestIDHeader = "X-Request-Id"
)

// CallOption changes one call.
type CallOption func(*call)

type call struct {
	query   url.Values
	header  http.Header
	retry   bool
	tries   int
	timeout time.Duration
}

// WithParam adds one query parameter.
func WithParam(key, value string) CallOption {
	return func(c *call) { c.query.Add(key, value) }
}

// WithHeader sets one header.
func WithHeader(key, value string) CallOption {
	return func(c *call) { c.header.Set(key, value) }
}

// WithRetry repeats the call while the server is away, busy or rate limiting: at most tries times in
// all, or until the context ends when tries is 0. Only for calls that are idempotent.
func WithRetry(tries int) CallOption {
	return func(c *call) { c.retry, c.tries = true, tries }
}

// WithTimeout bounds one try instead of the 60 s default; a long poll needs more than its wait.
func WithTimeout(d time.Duration) CallOption {
	return func(c *call) { c.timeout = d }
}

func newCall(opts []CallOption) *call {
	c := &call{query: url.Values{}, header: http.Header{}, timeout: defaultTimeout}
	for _, o := range opts {
		o(c)
	}
	return c
}

// Do sends in as JSON (nothing when nil) and decodes the answer into out (dropped when nil). Path
// begins with a slash and is already escaped. A refusal is a *fault.Error; see StatusOf and
// RetryAfter.
func (c *Client) Do(ctx context.Context, method, path string, in, out any, opts ...CallOption) error {
	o := newCall(opts)
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("encode the request of %s %s: %w", method, path, err)
		}
		o.header.Set("Content-Type", "application/json")
	}
	return c.repeat(ctx, o, method+" "+path, func() error {
		// A server that stops answering is not a cancelled caller: the cause tells them apart.
		try, cancel := context.WithTimeoutCause(ctx, o.timeout, noAnswer(c.base, o.timeout))
		defer cancel()
		var rd io.Reader
		if body != nil {
			rd = bytes.NewReader(body)
		}
		resp, err := c.send(try, method, path, rd, int64(len(body)), o)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return c.decode(try, resp, out)
	})
}

// Open sends a call without body and hands out the raw answer of a 2xx status, whose body the caller
// closes. The context bounds the body too; WithTimeout has no effect.
func (c *Client) Open(ctx context.Context, method, path string, opts ...CallOption) (*http.Response, error) {
	return c.send(ctx, method, path, nil, 0, newCall(opts))
}

// send makes one request; a status outside 2xx comes back as an error with the body closed.
func (c *Client) send(ctx context.Context, method, path string, body io.Reader, size int64, o *call) (*http.Response, error) {
	q := url.Values{}
	for k, v := range o.query {
		q[k] = v
	}
	if c.project != "" && !q.Has("project") {
		q.Set("project", c.project)
	}
	target := c.base + path
	if len(q) > 0 {
		sep := "?"
		if strings.Contains(path, "?") { // a page's cursor and limit
			sep = "&"
		}
		target += sep + q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if body != nil {
		req.ContentLength = size
	}
	for k, v := range o.header {
		req.Header[k] = v
	}
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
	req.Header.Set("User-Agent", c.userAgent)
	if req.Header.Get(requestIDHeader) == "" {
		req.Header.Set(requestIDHeader, ident.New("req", c.clock.Now()))
	}
	if c.credential != "" {
		req.Header.Set("Authorization", "Bearer "+c.credential)
	}
	sent := c.clock.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, method, path, err)
	}
	c.noteDate(resp.Header.Get("Date"), sent)
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, c.blameClock(refusal(resp, c.base, c.clock.Now()))
}

// repeat runs try under the call's retry policy.
func (c *Client) repeat(ctx context.Context, o *call, what string, try func() error) error {
	back := retry.Backoff{Base: 250 * time.Millisecond, Cap: 10 * time.Second}
	for {
		err := try()
		if err == nil || !o.retry || !Transient(err) || ctx.Err() != nil {
			return err
		}
		if o.tries > 0 && back.Tries()+1 >= o.tries {
			return err
		}
		if gaveUp := pause(ctx, c.clock, &back, err); gaveUp != nil {
			return gaveUp
		}
		c.log.DebugContext(ctx, "call repeated", "call", what, "try", back.Tries()+1, "after", err)
	}
}

// pause waits before the next try after err. It returns err, joined with the context's end, when the
// context ends first or would end before the peer's Retry-After.
func pause(ctx context.Context, clk clock.Clock, back *retry.Backoff, err error) error {
	wait := back.Next(RetryAfter(err))
	if end, ok := ctx.Deadline(); ok && clk.Now().Add(wait).After(end) {
		return fmt.Errorf("%w (gave up: the next try would be later than %w)", err, context.DeadlineExceeded)
	}
	if stop := retry.Sleep(ctx, clk, wait); stop != nil {
		return fmt.Errorf("%w (gave up: %w)", err, stop)
	}
	return nil
}

// noteDate keeps the difference of the clocks, taking half the round trip and half of the header's
// one-second step.
func (c *Client) noteDate(date string, sent time.Time) {
	server, err := http.ParseTime(date)
	if err != nil {
		return
	}
	c.skew.Store(int64(skewOf(server, sent, c.clock.Now())))
}

// skewOf is how far a server's clock is ahead of ours, by the time that it named in an answer.
func skewOf(server, sent, received time.Time) time.Duration {
	local := sent.Add(received.Sub(sent) / 2)
	return server.Add(500 * time.Millisecond).Sub(local.Round(0))
}
