package fakellama

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"interlock.sh/internal/testkit"
)

func TestMain(m *testing.M) {
	MaybeRun()
	os.Exit(m.Run())
}

// patience bounds every wait of these tests; none is expected to take near as long.
const patience = 20 * time.Second

// server is a fake under test.
type server struct {
	t    *testing.T
	cmd  *exec.Cmd
	base string
	out  *bytes.Buffer
	done chan struct{}
}

func start(t *testing.T, cfg Config, more ...string) *server {
	t.Helper()
	return startAt(t, testkit.FreePort(t), cfg, more...)
}

func startAt(t *testing.T, port int, cfg Config, more ...string) *server {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{
		"--host", "127.0.0.1", "--port", fmt.Sprint(port), "--api-key-file", keys,
		"-m", "model.gguf", "--alias", "tiny", "-c", "2048", "-np", "2", "-t", "1", "--jinja",
	}, more...)
	return startWith(t, port, cfg, args)
}

func startWith(t *testing.T, port int, cfg Config, args []string) *server {
	t.Helper()
	s := &server{
		t: t, cmd: exec.Command(Install(t, cfg), args...), out: &bytes.Buffer{},
		base: fmt.Sprintf("http://127.0.0.1:%d", port), done: make(chan struct{}),
	}
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(s.done); _ = s.cmd.Wait() }()
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); <-s.done })
	return s
}

// exit waits for the end of the process and returns its code.
func (s *server) exit() int {
	s.t.Helper()
	select {
	case <-s.done:
		return s.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		s.t.Fatal("the fake did not end")
		return 0
	}
}

func (s *server) do(method, path, key, body string) (int, string) {
	s.t.Helper()
	resp, err := s.try(method, path, key, body)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func (s *server) try(method, path, key, body string) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	return http.DefaultClient.Do(req)
}

// await polls /health until it answers the status.
func (s *server) await(status int) {
	s.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		resp, err := s.try("GET", "/health", "", "")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == status {
				return
			}
		}
		select {
		case <-s.done:
			s.t.Fatalf("the fake ended: %s", s.out)
		case <-time.After(5 * time.Millisecond):
		}
	}
	s.t.Fatalf("/health never answered %d", status)
}

func TestLoadingThenHealthyAndTheKey(t *testing.T) {
	c := NewControl(t)
	s := start(t, Config{Control: c.Path(), GateLoad: true})
	s.await(503)
	if _, body := s.do("GET", "/health", "", ""); strings.TrimSpace(body) != `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}` {
		t.Fatalf("loading body %s", body)
	}
	c.FinishLoad()
	s.await(200)
	for _, path := range []string{"/props", "/v1/models", "/v1/chat/completions"} {
		if code, _ := s.do("GET", path, "wrong", ""); code != 401 {
			t.Errorf("%s with a wrong key answers %d, want 401", path, code)
		}
	}
	var props struct {
		Settings struct {
			Ctx int `json:"n_ctx"`
		} `json:"default_generation_settings"`
		Slots int    `json:"total_slots"`
		Alias string `json:"model_alias"`
		Path  string `json:"model_path"`
		Build string `json:"build_info"`
	}
	_, body := s.do("GET", "/props", "sesame", "")
	if err := json.Unmarshal([]byte(body), &props); err != nil {
		t.Fatal(err)
	}
	if props.Settings.Ctx != 1024 || props.Slots != 2 || props.Alias != "tiny" || props.Path != "model.gguf" || props.Build == "" {
		t.Fatalf("props %+v", props)
	}
}

const ask = `{"messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}%s}`

func TestStreamShapeStepByStep(t *testing.T) {
	c := NewControl(t)
	s := start(t, Config{Control: c.Path(), GateTokens: true, Tokens: []string{"a", "b"}})
	s.await(200)
	resp, err := s.try("POST", "/v1/chat/completions", "sesame", fmt.Sprintf(ask, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	events := bufio.NewScanner(resp.Body)
	next := func() string {
		for events.Scan() {
			if data, ok := strings.CutPrefix(events.Text(), "data: "); ok {
				return data
			}
		}
		t.Fatalf("the stream ended: %v", events.Err())
		return ""
	}
	want := func(choices string) {
		t.Helper()
		var chunk struct {
			Object  string          `json:"object"`
			Choices json.RawMessage `json:"choices"`
			Usage   json.RawMessage `json:"usage"`
			Timings json.RawMessage `json:"timings"`
		}
		if err := json.Unmarshal([]byte(next()), &chunk); err != nil {
			t.Fatal(err)
		}
		if string(chunk.Choices) != choices || chunk.Object != "chat.completion.chunk" {
			t.Fatalf("choices %s, want %s", chunk.Choices, choices)
		}
		if last := choices == "[]"; last != (chunk.Usage != nil) || last != (chunk.Timings != nil) {
			t.Fatalf("usage %s and timings %s beside choices %s", chunk.Usage, chunk.Timings, choices)
		}
	}
	want(`[{"delta":{"content":null,"role":"assistant"},"finish_reason":null,"index":0}]`)
	c.Step(1)
	want(`[{"delta":{"content":"a"},"finish_reason":null,"index":0}]`)
	c.Open()
	want(`[{"delta":{"content":"b"},"finish_reason":null,"index":0}]`)
	want(`[{"delta":{},"finish_reason":"stop","index":0}]`)
	want(`[]`)
	if got := next(); got != "[DONE]" {
		t.Fatalf("the stream ends with %q", got)
	}
}

func TestWholeAnswerLimitAndToolCall(t *testing.T) {
	s := start(t, Config{ToolCall: &ToolCall{Name: "weather", Arguments: `{"city":"Bern"}`}})
	s.await(200)
	for body, want := range map[string]string{
		`{"messages":[{"content":"hi"}],"max_tokens":1}`:                            `Hello|length|1|`,
		`{"messages":[{"content":"hi"}]}`:                                           `Hello, world.|stop|4|`,
		`{"messages":[{"content":"hi"}],"tools":[{"function":{"name":"weather"}}]}`: `|tool_calls|1|weather{"city":"Bern"}`,
	} {
		_, text := s.do("POST", "/v1/chat/completions", "sesame", body)
		var got struct {
			Choices []struct {
				Finish  string `json:"finish_reason"`
				Message struct {
					Content   string `json:"content"`
					ToolCalls []struct {
						Function struct{ Name, Arguments string } `json:"function"`
					} `json:"tool_calls"`
				} `json:"message"`
			} `json:"choices"`
			Usage struct {
				Completion int `json:"completion_tokens"`
			} `json:"usage"`
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil || len(got.Choices) != 1 {
			t.Fatalf("%v in %s", err, text)
		}
		c, called := got.Choices[0], ""
		for _, call := range c.Message.ToolCalls {
			called += call.Function.Name + call.Function.Arguments
		}
		if line := fmt.Sprintf("%s|%s|%d|%s", c.Message.Content, c.Finish, got.Usage.Completion, called); line != want {
			t.Errorf("%s gives %s, want %s", body, line, want)
		}
	}
	long := fmt.Sprintf(`{"messages":[{"content":%q}]}`, strings.Repeat("w ", 2000))
	if code, text := s.do("POST", "/v1/chat/completions", "sesame", long); code != 400 || !strings.Contains(text, `"exceed_context_size_error"`) || !strings.Contains(text, `"n_ctx":1024`) {
		t.Fatalf("overflow answers %d %s", code, text)
	}
}

func TestTermHangsWhileAStreamIsOpen(t *testing.T) {
	c := NewControl(t)
	s := start(t, Config{Control: c.Path(), GateTokens: true})
	s.await(200)
	resp, err := s.try("POST", "/v1/chat/completions", "sesame", fmt.Sprintf(ask, ""))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(resp.Body)
	_, _ = lines.ReadString('\n')
	c.Step(1)
	for { // a token still comes after the signal: the server is there for its client
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream broke: %v", err)
		}
		if strings.Contains(line, `"Hello"`) {
			break
		}
	}
	resp.Body.Close()
	if code := s.exit(); code != 0 {
		t.Fatalf("exit %d after the client left", code)
	}
}

func TestEnds(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := startAt(t, taken.Addr().(*net.TCPAddr).Port, Config{})
	if code := s.exit(); code != 1 || !strings.Contains(s.out.String(), "couldn't bind HTTP server socket") {
		t.Errorf("port in use: exit %d, %s", code, s.out)
	}
	s = start(t, Config{CrashOnStart: &Crash{Code: 7, Stderr: "it's broken"}})
	if code := s.exit(); code != 7 || !strings.Contains(s.out.String(), "it's broken") {
		t.Errorf("crash: exit %d, %s", code, s.out)
	}
	s = start(t, Config{CrashAfter: 2})
	s.await(200)
	if code, _ := s.do("POST", "/v1/chat/completions", "sesame", `{"messages":[]}`); code != 200 {
		t.Errorf("first completion answers %d", code)
	}
	if _, err := s.try("POST", "/v1/chat/completions", "sesame", `{"messages":[]}`); err == nil {
		t.Error("the second completion was answered")
	}
	if code := s.exit(); code != 134 {
		t.Errorf("crash on the second: exit %d", code)
	}
	c := NewControl(t)
	s = start(t, Config{Control: c.Path(), GateLoad: true})
	s.await(503)
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if code := s.exit(); code != exitTerm {
		t.Errorf("SIGTERM while loading: exit %d, want %d", code, exitTerm)
	}
}

func TestVersionAndHelp(t *testing.T) {
	path := Install(t, Config{Version: "10434"})
	out, err := exec.Command(path, "--version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "version: 10434 (") {
		t.Fatalf("--version: %v %s", err, out)
	}
	out, err = exec.Command(path, "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--api-key-file", "--parallel", "--ctx-size", "--alias", "--port", "--host", "--threads-batch"} {
		if !strings.Contains(string(out), flag) {
			t.Errorf("--help does not list %s", flag)
		}
	}
	if err := exec.Command(path, "-m", "x", "--no-such-flag").Run(); err == nil {
		t.Error("an unknown flag was accepted")
	}
}
