package llama

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"interlock.sh/fault"
)

// Client talks to one server. It has connections of its own, uses no proxy and follows no redirect.
// Make a new one for each start of a server: what it learnt about who listens dies with it.
type Client struct {
	base string
	key  string
	http *http.Client

	proven atomic.Bool // the listener knows our key and refuses another
	active atomic.Int64
	heard  atomic.Bool // since Health was asked, bytes came from the listener, HTTP or not

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

// NewClient is a client of the server at a base URL such as "http://127.0.0.1:4001". With an empty key
// (a server that its operator named and runs without one) a foreign server cannot be told by the key.
func NewClient(base, key string) *Client {
	c := &Client{base: strings.TrimRight(base, "/"), key: key, conns: map[net.Conn]struct{}{}}
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy:              nil,
			DialContext:        c.dial,
			DisableCompression: true,
			// After a streamed answer llama-server closes the connection, though it promised to keep it:
			// the next request on it would meet the end of it. A new one on this machine costs 0.1 ms.
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// errClosed is what every request gets after CloseStreams.
var errClosed = fault.New(fault.Unavailable, "the model server is being stopped")

func (c *Client) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	t := &tracked{Conn: conn, owner: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = conn.Close()
		return nil, errClosed
	}
	c.conns[t] = struct{}{}
	return t, nil
}

// tracked is a connection that tells its owner when it hears something and when it is closed.
type tracked struct {
	net.Conn
	owner *Client
}

// Read notes that the server was heard.
func (t *tracked) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if n > 0 {
		t.owner.heard.Store(true)
	}
	return n, err
}

// Close forgets the connection and ends it.
func (t *tracked) Close() error {
	t.owner.mu.Lock()
	delete(t.owner.conns, t)
	t.owner.mu.Unlock()
	return t.Conn.Close()
}

// CloseStreams closes every connection to the server and refuses new ones. It comes before the signal
// that stops a server: llama-server waits on SIGTERM for as long as a stream is open.
func (c *Client) CloseStreams() {
	c.mu.Lock()
	c.closed = true
	conns := make([]net.Conn, 0, len(c.conns))
	for conn := range c.conns {
		conns = append(conns, conn)
	}
	c.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close() // it is going away either way
	}
	c.http.CloseIdleConnections()
}

// Active is the number of Chat responses whose bodies are still open.
func (c *Client) Active() int { return int(c.active.Load()) }

// Chat posts an OpenAI chat completion and gives the answer as it comes, whatever its status; the
// caller closes the body. Waiting for a free slot is part of the answer, so ctx alone bounds it.
func (c *Client) Chat(ctx context.Context, body []byte) (*http.Response, error) {
	res, err := c.send(ctx, http.MethodPost, "/v1/chat/completions", c.key, body)
	if err != nil {
		return nil, err
	}
	c.active.Add(1)
	res.Body = &stream{ReadCloser: res.Body, done: func() { c.active.Add(-1) }}
	return res, nil
}

// stream counts itself out once.
type stream struct {
	io.ReadCloser
	once sync.Once
	done func()
}

// Close gives the stream back, once, and ends its body.
func (s *stream) Close() error {
	s.once.Do(s.done)
	return s.ReadCloser.Close()
}

// send does one request under the given key.
func (c *Client) send(ctx context.Context, method, path, key string, body []byte) (*http.Response, error) {
	var r io.Reader
	if body != nil {
		r = strings.NewReader(string(body))
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, r)
	if err != nil {
		return nil, fmt.Errorf("ask llama-server: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := c.http.Do(req)
	if err != nil {
		if errors.Is(err, errClosed) {
			return nil, errClosed
		}
		return nil, fmt.Errorf("ask llama-server: %w", err)
	}
	return res, nil
}

// maxAnswer bounds what is read of an answer other than a stream. A chat template is part of /props.
const maxAnswer = 8 << 20

// fetch does a request and reads the answer whole.
func (c *Client) fetch(ctx context.Context, method, path, key string, body []byte) (status int, answer []byte, err error) {
	res, err := c.send(ctx, method, path, key, body)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return res.StatusCode, nil, fmt.Errorf("read llama-server's answer to %s: %w", path, err)
	}
	return res.StatusCode, answer, nil
}

// get reads a JSON document; any status but 200 is a statusError.
func (c *Client) get(ctx context.Context, path string, into any) error {
	status, answer, err := c.fetch(ctx, http.MethodGet, path, c.key, nil)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return &statusError{path, status, reason(answer)}
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("read llama-server's answer to %s: %w", path, err)
	}
	return nil
}

// statusError is an answer that was not wanted.
type statusError struct {
	path   string
	status int
	reason string
}

// Error has the path, the status and what the server said of it.
func (e *statusError) Error() string {
	return fmt.Sprintf("llama-server answered %s with %d: %s", e.path, e.status, e.reason)
}

// reason is the message of llama-server's error body, or the start of what came instead.
func reason(answer []byte) string {
	var body struct {
		Error struct{ Message string }
	}
	if json.Unmarshal(answer, &body) == nil && body.Error.Message != "" {
		return body.Error.Message
	}
	if len(answer) == 0 {
		return "no body"
	}
	return fmt.Sprintf("%q", answer[:min(len(answer), 200)])
}
