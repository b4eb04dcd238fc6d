package localapi_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"interlock.sh/agent/localapi"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
)

// stub is an agent that remembers what it was asked.
type stub struct {
	mode    fleet.Mode
	refuse  error
	deep    bool
	logsOf  string
	logsNum int
	hours   schedule.Availability
	pause   time.Duration
	asked   bool // for hours or a pause
	within  time.Duration
}

func (s *stub) Status(context.Context) localapi.Status {
	return localapi.Status{Group: "g", Owner: s.mode, Words: "ready"}
}

func (s *stub) SetOwner(m fleet.Mode) error {
	if s.refuse == nil {
		s.mode = m
	}
	return s.refuse
}

func (s *stub) Doctor(_ context.Context, deep bool) []localapi.Check {
	s.deep = deep
	return []localapi.Check{{Name: "disk", OK: true}, {Name: "clock", Detail: "late", Fix: "set it"}}
}

func (s *stub) Logs(deployment string, lines int) (localapi.Logs, error) {
	s.logsOf, s.logsNum = deployment, lines
	if deployment == "none" {
		return localapi.Logs{}, fault.New(fault.NotFound, "no deployment %q", deployment).WithHint("look at status")
	}
	return localapi.Logs{Lines: []string{"a", "b"}}, nil
}

// listen serves h on a socket.
func listen(t *testing.T, h http.Handler) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "la") // not t.TempDir: a socket's path has 104 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = srv.Serve(l) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-ended
		_ = os.RemoveAll(dir)
	})
	return path
}

func TestEveryVerb(t *testing.T) {
	a := &stub{mode: fleet.Active}
	c, ctx := localapi.Dial(listen(t, localapi.Handler(a))), t.Context()
	if st, err := c.Status(ctx); err != nil || st.Group != "g" {
		t.Errorf("status: %+v, %v", st, err)
	}
	for _, m := range []fleet.Mode{fleet.Paused, fleet.Draining, fleet.Active} {
		if st, err := c.SetOwner(ctx, m); err != nil || st.Owner != m || a.mode != m {
			t.Errorf("%s: %+v, %v", m, st, err)
		}
	}
	checks, err := c.Doctor(ctx, true)
	want := []localapi.Check{{Name: "disk", OK: true}, {Name: "clock", Detail: "late", Fix: "set it"}}
	if d := cmp.Diff(want, checks); err != nil || d != "" || !a.deep {
		t.Errorf("doctor: %v %s", err, d)
	}
	if logs, err := c.Logs(ctx, "tiny & more", 7); err != nil || len(logs.Lines) != 2 || a.logsOf != "tiny & more" || a.logsNum != 7 {
		t.Errorf("logs of %q, %d lines: %v", a.logsOf, a.logsNum, err)
	}
}

func TestWhatIsRefusedIsCoded(t *testing.T) {
	a := &stub{}
	socket := listen(t, localapi.Handler(a))
	c, ctx := localapi.Dial(socket), t.Context()
	_, err := c.Logs(ctx, "none", 1)
	if e := fault.Of(err); !errors.Is(err, fault.NotFound) || e.Hint != "look at status" {
		t.Errorf("a deployment that is not there: %v", err)
	}
	for _, n := range []int{0, -1, 1001} {
		if _, err := c.Logs(ctx, "", n); !errors.Is(err, fault.Invalid) || fault.Of(err).Field != "lines" {
			t.Errorf("%d lines: %v", n, err)
		}
	}
	if _, err := c.SetOwner(ctx, "asleep"); !errors.Is(err, fault.Invalid) || fault.Of(err).Field != "mode" {
		t.Errorf("a mode that is none: %v", err)
	}
	a.refuse = fault.New(fault.DiskFull, "no room")
	if _, err := c.SetOwner(ctx, fleet.Paused); !errors.Is(err, fault.DiskFull) {
		t.Errorf("a wish that cannot be kept: %v", err)
	}
	raw := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	defer raw.CloseIdleConnections()
	for _, call := range []string{"GET /nothing", "POST /status", "GET /pause"} {
		method, path, _ := strings.Cut(call, " ")
		req, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := raw.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s, %s", call, resp.Status, resp.Header.Get("Content-Type"))
		}
	}
}

func TestAnAgentOfAnotherVersionIsUnderstood(t *testing.T) {
	newer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/status" {
			_, _ = w.Write([]byte(`{"group":"g","words":"resting","hours":{"from":"22:00"},"state":{"kind":"resting","moon":1}}`))
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("later"))
	})
	c := localapi.Dial(listen(t, newer))
	st, err := c.Status(t.Context())
	if err != nil || st.Words != "resting" || st.State.Kind != "resting" {
		t.Errorf("status: %+v, %v", st, err)
	}
	if _, err := c.Logs(t.Context(), "", 1); !errors.Is(err, fault.Unavailable) {
		t.Errorf("an answer without a code: %v", err)
	}
}

func TestAnAgentThatDoesNotRunIsSaidSo(t *testing.T) {
	dir, err := os.MkdirTemp("", "la")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	left := filepath.Join(dir, "left")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: left, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	for _, socket := range []string{filepath.Join(dir, "none"), left} {
		_, err := localapi.Dial(socket).Status(t.Context())
		if e := fault.Of(err); !errors.Is(err, fault.Unavailable) || e.Hint != "start it: interlock agent start" {
			t.Errorf("%s: %v", filepath.Base(socket), err)
		}
	}
}

// Whoever puts something else where the agent's door should be is not taken for the agent.
func TestWhatIsNoDoorIsNotAsked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := localapi.Dial(path).Status(t.Context()); !errors.Is(err, fault.ScopeDenied) || !strings.Contains(err.Error(), path+" is no socket") {
		t.Errorf("a file: %v", err)
	}
}
