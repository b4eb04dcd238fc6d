package supervise

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"interlock.sh/internal/testkit/fakellama"
)

// patience bounds the waits of these tests. They wait for conditions; none takes near as long.
const patience = 30 * time.Second

// quick are durations for real processes: short, and still far above what one step takes.
var quick = Policy{
	ReadyEvery: 10 * time.Millisecond, ReadyWithin: 5 * time.Second, LoadStall: 50 * time.Millisecond,
	ProbeEvery: 20 * time.Millisecond, ProbeWithin: 5 * time.Second, ProbeAgain: 10 * time.Millisecond,
	BackoffBase: time.Millisecond, BackoffCap: 10 * time.Millisecond,
	CloseWithin: 100 * time.Millisecond, TermAgain: 100 * time.Millisecond, KillAfter: 200 * time.Millisecond, ReapWithin: 5 * time.Second,
}

// eachLeash runs a test under every leash of this system.
func eachLeash(t *testing.T, f func(t *testing.T, leash Leash)) {
	leashes := []Leash{LeashPipe}
	if SystemLeash != LeashPipe {
		leashes = append(leashes, SystemLeash)
	}
	for _, leash := range leashes {
		t.Run(string(leash), func(t *testing.T) { f(t, leash) })
	}
}

// newSupervisor is one in a folder of its own, closed with the test.
func newSupervisor(t *testing.T, leash Leash, policy Policy) *Supervisor {
	t.Helper()
	s, err := New(configIn(t.TempDir(), leash, policy))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		if rows := s.table.all(); len(rows) != 0 {
			t.Errorf("children stay recorded after the end: %+v", rows)
		}
	})
	return s
}

func configIn(dir string, leash Leash, policy Policy) Config {
	return Config{Dir: dir, Leash: leash, Shim: []string{os.Args[0], shimArg}, Policy: policy, Logger: slog.New(slog.DiscardHandler)}
}

func add(t *testing.T, s *Supervisor, d Driver) *Child {
	t.Helper()
	c, err := s.Add("tiny", d)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// await waits for a status that fits.
func await(t *testing.T, c *Child, what string, fits func(Status) bool) Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for st := range c.Watch(ctx) {
		if fits(st) {
			return st
		}
	}
	t.Fatalf("never %s; now %+v\n%s", what, c.Status(), strings.Join(c.Tail(20), "\n"))
	return Status{}
}

func awaitState(t *testing.T, c *Child, want State) Status {
	t.Helper()
	return await(t, c, string(want), func(st Status) bool { return st.State == want })
}

func stop(t *testing.T, c *Child) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	began := time.Now()
	if err := c.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// fakeDriver drives the fake llama-server over its real HTTP. Its zero value is a healthy server.
type fakeDriver struct {
	cfg      fakellama.Config
	deadline time.Duration                // of loading; patience when zero
	wait     time.Duration                // for one probe; as the supervisor allows when zero
	before   func(start int, at Endpoint) // just before the start, the port being chosen
	reshape  func(start int, cfg *fakellama.Config)

	starts  atomic.Int32
	closing atomic.Int32
	mu      sync.Mutex
	streams []io.Closer
}

const wantCtx, wantSlots = 1024, 2

func (d *fakeDriver) Command(at Endpoint) (Command, error) {
	n := int(d.starts.Add(1))
	cfg := d.cfg
	if d.reshape != nil {
		d.reshape(n, &cfg)
	}
	if d.before != nil {
		d.before(n, at)
	}
	path, env := fakellama.Command(cfg)
	return Command{Path: path, Env: env, Args: []string{
		"--host", Host, "--port", fmt.Sprint(at.Port), "--api-key-file", at.KeyFile, "-m", "tiny.gguf", "-a", "tiny",
		"-c", fmt.Sprint(wantCtx * wantSlots), "-np", fmt.Sprint(wantSlots),
	}}, nil
}

func (d *fakeDriver) Ready(ctx context.Context, at Endpoint) error {
	// While a server loads it answers 503 whatever the key, so that comes first.
	if code, _, err := request(ctx, "GET", at, "/health", "", ""); err != nil {
		return err
	} else if code == http.StatusServiceUnavailable {
		return ErrLoading
	}
	if code, _, err := request(ctx, "GET", at, "/props", "not "+at.Key, ""); err != nil {
		return err
	} else if code != http.StatusUnauthorized {
		return fmt.Errorf("%w: it takes any key", ErrForeign)
	}
	code, body, err := request(ctx, "GET", at, "/props", at.Key, "")
	switch {
	case err != nil:
		return err
	case code != http.StatusOK:
		return fmt.Errorf("%w: it answers %d to our key", ErrForeign, code)
	}
	var props struct {
		Slots    int `json:"total_slots"`
		Settings struct {
			Ctx int `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	if err := json.Unmarshal(body, &props); err != nil {
		return fmt.Errorf("read props: %w", err)
	}
	if props.Settings.Ctx != wantCtx || props.Slots != wantSlots {
		return fmt.Errorf("%w: %d slots of %d, asked for %d of %d", ErrUnusable, props.Slots, props.Settings.Ctx, wantSlots, wantCtx)
	}
	return nil
}

func (d *fakeDriver) Alive(ctx context.Context, at Endpoint) error {
	if d.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.wait)
		defer cancel()
	}
	code, body, err := request(ctx, "POST", at, "/v1/chat/completions", at.Key, `{"messages":[{"role":"user","content":"hi"}],"max_tokens":1}`)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("the probe answers %d: %s", code, body)
	}
	return err
}

func (d *fakeDriver) CloseStreams(Endpoint) {
	d.closing.Add(1)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.streams {
		_ = s.Close()
	}
	d.streams = nil
}

// keep has a stream closed by CloseStreams.
func (d *fakeDriver) keep(s io.Closer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streams = append(d.streams, s)
}

func (d *fakeDriver) ParseError(tail []string) string {
	for _, line := range tail {
		if _, reason, ok := strings.Cut(line, "error: "); ok {
			return reason
		}
	}
	return ""
}

func (d *fakeDriver) LoadDeadline() time.Duration {
	if d.deadline == 0 {
		return patience
	}
	return d.deadline
}

// local is a client for loopback: no proxy, no connection kept between requests.
var local = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func open(ctx context.Context, method string, at Endpoint, path, key, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, at.URL()+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	return local.Do(req)
}

func request(ctx context.Context, method string, at Endpoint, path, key, body string) (int, []byte, error) {
	resp, err := open(ctx, method, at, path, key, body)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, b, err
}

// openStream begins a chat stream and reads its first bytes.
func openStream(t *testing.T, at Endpoint) *http.Response {
	t.Helper()
	resp, err := open(t.Context(), "POST", at, "/v1/chat/completions", at.Key, `{"messages":[{"role":"user","content":"hi"}],"stream":true}`)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if b := make([]byte, 6); resp.StatusCode != http.StatusOK {
		t.Fatalf("the stream answers %d", resp.StatusCode)
	} else if _, err := io.ReadFull(resp.Body, b); err != nil || !bytes.Equal(b, []byte("data: ")) {
		t.Fatalf("the stream begins with %q, %v", b, err)
	}
	return resp
}

// squat listens on the port as a foreign server that says ok to everything, until the test ends.
func squat(t *testing.T, at Endpoint) {
	l, err := net.Listen("tcp4", at.Addr())
	if err != nil {
		t.Errorf("squat: %v", err)
		return
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"ok"}`)
	})}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("squat: %v", err)
		}
	})
	t.Cleanup(func() { _ = srv.Close(); serving.Wait() })
}
