package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"interlock.sh/access"
	"interlock.sh/ai"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/clock"
	kit "interlock.sh/internal/testkit/plane"
	"interlock.sh/server"
	"interlock.sh/tasks"
)

// start runs a server that is expected to refuse, and returns its error.
func refuse(t *testing.T, c server.Config) *fault.Error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	c.Listening = func(string, string) { t.Error("it serves"); cancel() }
	err := server.Run(ctx, c)
	if err == nil {
		t.Fatal("no error")
	}
	return fault.Of(err)
}

func TestAPortInUseSaysWhoListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // a test's own
	data := filepath.Join(t.TempDir(), "data")
	e := refuse(t, server.Config{Data: data, Listen: l.Addr().String()})
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(me)
	if len(name) > 15 {
		name = name[:15] // as the kernel keeps it
	}
	if e.Code != fault.Conflict || e.Field != "listen" || !strings.Contains(e.Message, l.Addr().String()) || !strings.Contains(e.Hint, "--listen") ||
		!strings.Contains(e.Message, fmt.Sprint(os.Getpid())) || !strings.Contains(e.Message, name) {
		t.Errorf("%v", e)
	}
	// It let go of everything: the same folder serves at once on another port.
	kit.Start(t, kit.Options{Data: data})
}

// "localhost" is both families, where the machine has both: the command line tries either.
func TestLocalhostIsBothFamilies(t *testing.T) {
	p := kit.Start(t, kit.Options{Change: func(c *server.Config) { c.Listen = "localhost:0" }})
	port, ok := strings.CutPrefix(p.URL, "http://localhost:")
	if !ok {
		t.Fatal(p.URL)
	}
	hosts := []string{"127.0.0.1"}
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil {
		_ = l.Close()
		hosts = append(hosts, "::1")
	}
	for _, host := range hosts {
		resp, err := http.Get("http://" + net.JoinHostPort(host, port) + "/q/health")
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(host, resp, err)
		}
		_ = resp.Body.Close()
	}
	if e := refuse(t, server.Config{Data: filepath.Join(t.TempDir(), "data"), Listen: "localhost:" + port}); e.Code != fault.Conflict {
		t.Errorf("%v", e)
	}
}

func TestOneServerADataFolder(t *testing.T) {
	p := kit.Start(t, kit.Options{})
	e := refuse(t, server.Config{Data: p.Data})
	if e.Code != fault.Conflict || !strings.Contains(e.Message, p.Data) || !strings.Contains(e.Message, fmt.Sprint(os.Getpid())) || !strings.Contains(e.Hint, "--data") {
		t.Errorf("%v", e)
	}
	if _, err := p.Owner.Whoami(t.Context()); err != nil {
		t.Errorf("the first one suffered: %v", err)
	}
}

func TestAFolderThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e := refuse(t, server.Config{Data: filepath.Join(file, "data")})
	if e.Code == fault.Internal || !strings.Contains(e.Message, file) || e.Hint == "" {
		t.Errorf("a folder below a file: %v", e)
	}
	if os.Getuid() == 0 {
		return // nothing is read-only for root; package store tests a read-only mount
	}
	locked := filepath.Join(t.TempDir(), "locked")
	if err := os.Mkdir(locked, 0o500); err != nil {
		t.Fatal(err)
	}
	if e := refuse(t, server.Config{Data: locked}); e.Code == fault.Internal || !strings.Contains(e.Message, locked) {
		t.Errorf("a folder without write permission: %v", e)
	}
}

func TestTheOwnerTokenIsOfferedOnce(t *testing.T) {
	p := kit.Start(t, kit.Options{}) // takes the offered one
	if token, err := os.ReadFile(filepath.Join(p.Data, "interlock.db")); err != nil || strings.Contains(string(token), p.Token) {
		t.Errorf("a secret stands in the database, or %v", err)
	}
	p.Stop()
	p.Again() // fails when a second token is offered
	if _, err := p.Owner.Whoami(t.Context()); err != nil {
		t.Error(err)
	}
}

// A token that nobody used is not offered again either: it may have been read.
func TestAnUnusedOwnerTokenIsNotOfferedAgain(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	var offered []string
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		err := server.Run(ctx, server.Config{
			Data: data, Listen: "127.0.0.1:0", OwnerToken: func(s string) { offered = append(offered, s) }, Listening: func(string, string) { cancel() },
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(offered) != 1 {
		t.Fatalf("%d tokens were offered", len(offered))
	}
	fresh, err := server.NewOwnerToken(t.Context(), data, clock.System)
	if err != nil || fresh == offered[0] {
		t.Fatal(fresh, err)
	}
}

func TestNewOwnerToken(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("a-long-name-", 10), "data") // too long for a socket
	for name, data := range map[string]string{"in the folder": "", "beside it": long} {
		t.Run(name, func(t *testing.T) {
			fake := clock.NewFake(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
			p := kit.Start(t, kit.Options{Data: data, Clock: fake})
			login := func(token string) error {
				_, err := p.Client("").Login(t.Context(), access.LoginRequest{Token: token})
				return err
			}
			next := func() string {
				t.Helper()
				token, err := server.NewOwnerToken(t.Context(), p.Data, fake)
				if err != nil {
					t.Fatal(err)
				}
				return token
			}
			first, second := next(), next()
			if err := login(first); !errors.Is(err, fault.Revoked) {
				t.Errorf("a token that was replaced: %v", err)
			}
			if err := login(second); err != nil {
				t.Errorf("while the server runs: %v", err)
			}
			if err := login(second); !errors.Is(err, fault.Revoked) {
				t.Errorf("a second time: %v", err)
			}
			late := next()
			fake.Advance(24 * time.Hour)
			if err := login(late); !errors.Is(err, fault.Unauthenticated) {
				t.Errorf("after 24 h: %v", err)
			}
			if name == "in the folder" {
				info, err := os.Stat(filepath.Join(p.Data, "admin.sock"))
				if err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("the socket: %v %v", info.Mode(), err)
				}
			}
			p.Stop()
			third := next()
			p.Again()
			if err := login(third); err != nil {
				t.Errorf("made while it was stopped: %v", err)
			}
		})
	}
	for name, dir := range map[string]string{"missing": filepath.Join(t.TempDir(), "x"), "empty": t.TempDir()} {
		_, err := server.NewOwnerToken(t.Context(), dir, clock.System)
		if e := fault.Of(err); e.Code != fault.NotFound || !strings.Contains(e.Error(), dir) {
			t.Errorf("%s: %v", name, err)
		}
		if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
			t.Errorf("%s: something was made there", name)
		}
	}
}

// What readers hold open does not delay a shutdown; a request that is being answered ends.
func TestAnOrderedShutdown(t *testing.T) {
	p := kit.Start(t, kit.Options{})
	g := p.NewGroup(nil, "models")
	d := p.Deploy(nil, g, "tiny", 1)
	m := p.Enroll(g, fleet.RoleClient, "box")
	m.Serve(d, 1)
	run, err := p.Owner.SubmitRun(t.Context(), ai.RunRequest{Model: "tiny", Prompt: "x"})
	if err != nil {
		t.Fatal(err)
	}
	m.Take()
	streams := map[string]*client.Client{
		"/api/events": p.Owner, "/api/workers/events": m.Client, "/api/ai/runs/" + run.ID + "/stream": p.Owner, "/api/tasks/" + run.TaskID + "/watch": p.Owner,
	}
	ended := make(chan string, len(streams))
	for path, c := range streams {
		s, err := c.Stream(t.Context(), path, "")
		if err != nil {
			t.Fatal(path, err)
		}
		defer s.Close() //nolint:errcheck // read only
		go func() {
			for {
				if _, err := s.Next(); err != nil {
					ended <- path
					return
				}
			}
		}()
	}
	key := p.NewKey(access.TaskWorker)
	worker := p.Client(key)
	if _, err := worker.RegisterWorker(t.Context(), tasks.RegisterRequest{WorkerID: "w", MaxConcurrent: 1, Handlers: []tasks.Handler{{Type: "demo/hello", SchemaVersion: 1, EffectSafety: tasks.Pure}}}); err != nil {
		t.Fatal(err)
	}
	claimed := make(chan error, 1)
	go func() {
		got, err := worker.ClaimTasks(t.Context(), tasks.ClaimRequest{WorkerID: "w", Max: 1, WaitMs: 25_000})
		if err == nil && len(got.Attempts) != 0 {
			err = errors.New("it got work")
		}
		claimed <- err
	}()
	slow := slowRequest(t, p)
	metrics := p.Client(p.NewKey(access.Metrics))
	kit.Await(t, "everything hangs", func() bool {
		return series(t, metrics, "interlock_http_streams") == 4 && series(t, metrics, "interlock_http_parked_claims") == 1
	})
	began := time.Now()
	stopped := make(chan struct{})
	go func() { p.Stop(); close(stopped) }()
	for range streams {
		select {
		case <-ended:
		case <-time.After(kit.Patience):
			t.Fatal("a stream holds the server up")
		}
	}
	if err := <-claimed; err != nil {
		t.Errorf("the parked claim: %v", err)
	}
	if status := slow(); status != http.StatusOK {
		t.Errorf("the request that was being sent: %d", status)
	}
	<-stopped
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the shutdown took %v", took)
	}
}

// slowRequest sends a request in two halves; the returned function sends the second.
func slowRequest(t *testing.T, p *kit.Plane) func() int {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	body := `{"type":"demo/hello","schemaVersion":1}`
	fmt.Fprintf(conn, "POST /api/tasks?project=demo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		p.Token, len(body), body[:10])
	return func() int {
		fmt.Fprint(conn, body[10:])
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Error(err)
			return 0
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
}

func series(t *testing.T, c *client.Client, name string) int {
	t.Helper()
	resp, err := c.Open(t.Context(), "GET", "/api/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var n int
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if _, err := fmt.Sscan(rest, &n); err == nil {
				return n
			}
		}
	}
	return -1
}

// The metrics have what an operator looks for, and no name of anybody's.
func TestMetrics(t *testing.T) {
	p := kit.Start(t, kit.Options{})
	g := p.NewGroup(nil, "secret-models")
	d := p.Deploy(nil, g, "secret-alias", 1)
	m := p.Enroll(g, fleet.RoleClient, "secret-box")
	m.Serve(d, 1)
	for range 2 {
		if _, err := p.Owner.SubmitRun(t.Context(), ai.RunRequest{Model: "secret-alias", Prompt: "secret-prompt"}); err != nil {
			t.Fatal(err)
		}
	}
	m.Take()
	metrics := p.Client(p.NewKey(access.Metrics))
	for name, want := range map[string]int{
		`interlock_tasks{state="queued"}`: 1, `interlock_tasks{state="leased"}`: 1, `interlock_tasks{state="running"}`: 0, `interlock_tasks{state="scheduled"}`: 0,
		`interlock_machines{state="online"}`: 1, `interlock_machines{state="offline"}`: 0,
		`interlock_http_in_flight`: 1, `interlock_http_streams`: 0, `interlock_http_parked_claims`: 0,
	} {
		if got := series(t, metrics, name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	resp, err := metrics.Open(t.Context(), "GET", "/api/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	text, _ := io.ReadAll(resp.Body)
	for _, want := range []string{`interlock_http_request_seconds_count{route="POST /api/ai/runs",status="200"} 2`, "go_goroutines", "process_"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s", want)
		}
	}
	for _, secret := range []string{"secret", p.Project, g.ID, m.ID} {
		if strings.Contains(string(text), `"`+secret) {
			t.Errorf("%s stands in the metrics", secret)
		}
	}
	if _, err := p.Owner.Open(t.Context(), "GET", "/api/metrics"); !errors.Is(err, fault.ScopeDenied) {
		t.Errorf("without the metrics key: %v", err)
	}
}

// The description is OpenAPI 3.1, has every route once, and points nowhere that is not there.
func TestTheDescription(t *testing.T) {
	p := kit.Start(t, kit.Options{})
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]map[string]any
		Components struct {
			Schemas         map[string]any
			SecuritySchemes map[string]any
		}
	}
	resp, err := p.Client("").Open(t.Context(), "GET", "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	text, err := io.ReadAll(resp.Body)
	if err != nil || json.Unmarshal(text, &doc) != nil || !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Fatalf("%v %.200s", err, text)
	}
	ids := map[string]bool{}
	operations := 0
	for path, methods := range doc.Paths {
		for method, op := range methods {
			operations++
			id, _ := op["operationId"].(string)
			if id == "" || ids[id] || op["summary"] == "" || op["responses"] == nil {
				t.Errorf("%s %s: id %q", method, path, id)
			}
			ids[id] = true
			params, _ := json.Marshal(op["parameters"])
			for _, part := range strings.Split(path, "/") {
				if name, ok := strings.CutPrefix(part, "{"); ok && !strings.Contains(string(params), `"name":"`+strings.TrimSuffix(name, "}")+`"`) {
					t.Errorf("%s %s does not describe %s", method, path, part)
				}
			}
		}
	}
	if operations < 60 || doc.Components.SecuritySchemes["bearer"] == nil {
		t.Errorf("%d operations", operations)
	}
	for rest := string(text); ; {
		_, after, more := strings.Cut(rest, `"$ref":"#/components/schemas/`)
		if !more {
			break
		}
		name, _, _ := strings.Cut(after, `"`)
		if doc.Components.Schemas[name] == nil {
			t.Errorf("schema %s is not there", name)
		}
		rest = after
	}
}
