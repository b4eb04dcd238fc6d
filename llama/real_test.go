package llama_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/ident"
	"interlock.sh/internal/testkit"
	"interlock.sh/internal/testkit/gguftiny"
	"interlock.sh/llama"
)

// patience bounds every wait for the real server; it answers within a fraction of a second unless the
// machine is busy.
const patience = 30 * time.Second

// server is a real llama-server under test.
type server struct {
	spec llama.Spec
	c    *llama.Client
	cmd  *exec.Cmd
	log  *logBuffer
	done chan struct{}
}

// logBuffer is written by the child and read by the test.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(l.buf.String(), "\n")
}

// start starts a real llama-server on a model, with changes to the usual spec.
func start(t *testing.T, model string, change func(*llama.Spec)) *server {
	t.Helper()
	bin, err := llama.Find(t.Context(), testkit.LlamaServer(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := bin.Check(); err != nil {
		t.Fatal(err)
	}
	s := llama.Spec{
		Model: model, Alias: "tiny", Port: testkit.FreePort(t), ContextLength: 1000, Slots: 2, Threads: 1,
		APIKey: ident.Secret("llama_"), APIKeyFile: filepath.Join(t.TempDir(), "key"),
	}
	change(&s)
	if err := os.WriteFile(s.APIKeyFile, []byte(s.APIKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args, err := llama.Args(bin, s)
	if err != nil {
		t.Fatal(err)
	}
	srv := &server{spec: s, c: llama.NewClient(localURL(s.Port), s.APIKey), log: &logBuffer{}, done: make(chan struct{})}
	srv.cmd = exec.Command(bin.Path, args...)
	srv.cmd.Env = llama.Env(bin, s, os.Environ())
	srv.cmd.Stdout, srv.cmd.Stderr = srv.log, srv.log
	if err := srv.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.cmd.Wait(); close(srv.done) }()
	t.Cleanup(func() {
		srv.c.CloseStreams()
		_ = srv.cmd.Process.Kill()
		<-srv.done
	})
	return srv
}

func usual(*llama.Spec) {}

// awaitOK polls until the server is ready.
func (s *server) awaitOK(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		state, err := s.c.Health(ctx)
		switch state {
		case llama.OK:
			return
		case llama.Refused, llama.Loading:
		default:
			t.Fatalf("a starting server is %v: %v\n%s", state, err, strings.Join(s.log.lines(), "\n"))
		}
		select {
		case <-s.done:
			t.Fatalf("the server ended: %s", llama.ParseStartError(s.log.lines()))
		case <-ctx.Done():
			t.Fatalf("not ready after %s, %v: %v", patience, state, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// awaitEnd waits for the server to end and gives its exit code.
func (s *server) awaitEnd(t *testing.T) int {
	t.Helper()
	select {
	case <-s.done:
	case <-time.After(patience):
		t.Fatalf("still running after %s:\n%s", patience, strings.Join(s.log.lines(), "\n"))
	}
	return s.cmd.ProcessState.ExitCode()
}

func tinyModel(t *testing.T, opts gguftiny.Options) []string {
	t.Helper()
	files, err := gguftiny.Write(filepath.Join(t.TempDir(), "tiny.gguf"), 1, opts)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestRealServerServes(t *testing.T) {
	for name, opts := range map[string]gguftiny.Options{"whole": {}, "split": {Shards: 3}} {
		t.Run(name, func(t *testing.T) {
			s := start(t, tinyModel(t, opts)[0], usual)
			s.awaitOK(t)
			p, err := s.c.Props(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := llama.VerifyProps(p, s.spec); err != nil {
				t.Errorf("props: %v", err)
			}
			if p.ChatTemplate == "" || p.BuildInfo == "" {
				t.Errorf("props without template or build: %+v", p)
			}
			if err := s.c.Probe(t.Context()); err != nil {
				t.Error(err)
			}
			chat(t, s, 24)
			l, err := s.c.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if l.Slots == nil || *l.Slots != 2 || l.Busy == nil || l.Tokens == nil || *l.Tokens < 24 || l.TokensPerSecond == nil {
				t.Errorf("load %+v, want 2 slots, 24 tokens and a speed", l)
			}
			// The second reading has nothing new: no speed, rather than a speed of 0.
			if l, err = s.c.Load(t.Context()); err != nil || l.TokensPerSecond != nil {
				t.Errorf("idle: a speed of %v, %v; want none", l.TokensPerSecond, err)
			}
		})
	}
}

// chat streams an answer of n tokens and checks the shape of the stream.
func chat(t *testing.T, s *server, n int) {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"messages":   []map[string]string{{"role": "user", "content": "Grüße 👋"}},
		"max_tokens": n, "stream": true, "stream_options": map[string]bool{"include_usage": true},
	})
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.c.Chat(t.Context(), body)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 200 {
		t.Fatalf("status %d", res.StatusCode)
	}
	text, finish, used, last := "", "", 0, ""
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if last = data; data == "[DONE]" {
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta        struct{ Content string }
				FinishReason string `json:"finish_reason"`
			}
			Usage struct {
				Completion int `json:"completion_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		for _, c := range chunk.Choices {
			text += c.Delta.Content
			finish += c.FinishReason
		}
		used += chunk.Usage.Completion
	}
	if text == "" || finish != "length" || used != n || last != "[DONE]" {
		t.Errorf("answer %q, finish %q, %d tokens, last %q; want text, length, %d, [DONE]", text, finish, used, last, n)
	}
}

func TestRealServerOfSomeoneElseIsForeign(t *testing.T) {
	model := tinyModel(t, gguftiny.Options{})[0]
	for name, change := range map[string]func(*llama.Spec){
		"with another key": usual,
		"without a key":    func(s *llama.Spec) { s.APIKey = "" },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, model, change)
			s.awaitOK(t)
			ours := llama.NewClient(localURL(s.spec.Port), ident.Secret("ours_"))
			defer ours.CloseStreams()
			state, err := ours.Health(t.Context())
			if state != llama.Foreign || !errors.Is(err, fault.Conflict) {
				t.Errorf("%v, %v; want foreign", state, err)
			}
		})
	}
}

func TestRealServerStopsWithAnOpenStream(t *testing.T) {
	s := start(t, tinyModel(t, gguftiny.Options{ContextLength: 1 << 20})[0], func(s *llama.Spec) { s.ContextLength = 1 << 19 })
	s.awaitOK(t)
	res, err := s.c.Chat(t.Context(), []byte(`{"messages":[{"role":"user","content":"go on"}],"stream":true,"max_tokens":500000}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := res.Body.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	s.c.CloseStreams()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.awaitEnd(t)
}

func TestRealServerCapsTheContextAndIsCaught(t *testing.T) {
	s := start(t, tinyModel(t, gguftiny.Options{ContextLength: 512})[0], func(s *llama.Spec) { s.ContextLength = 2048 })
	s.awaitOK(t)
	p, err := s.c.Props(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := llama.VerifyProps(p, s.spec); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "asked were 2048") {
		t.Errorf("a slot of %d tokens passes for 2048: %v", p.SlotContext, err)
	}
}

func TestRealStartErrorsAreRead(t *testing.T) {
	split := tinyModel(t, gguftiny.Options{Shards: 3})
	if err := os.Remove(split[1]); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "text.gguf")
	if err := os.WriteFile(text, []byte("hello world, no model"), 0o600); err != nil {
		t.Fatal(err)
	}
	squatter, err := net.Listen("tcp4", llama.Host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer squatter.Close()
	squat := func(s *llama.Spec) { s.Port = squatter.Addr().(*net.TCPAddr).Port }
	for name, c := range map[string]struct {
		model  string
		change func(*llama.Spec)
		want   string
	}{
		"a shard is missing": {split[0], usual, "00002-of-00003"},
		"no GGUF":            {text, usual, "invalid magic"},
		"no file":            {filepath.Join(t.TempDir(), "absent.gguf"), usual, "No such file"},
		"port in use":        {tinyModel(t, gguftiny.Options{})[0], squat, "couldn't bind"},
		"unknown argument":   {text, func(s *llama.Spec) { s.Extra = []string{"--nonsense"} }, "invalid argument: --nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			// On a busy machine llama-server may end before its log is written: then there is nothing
			// to read, and a wrong line would be worse.
			for range 10 {
				s := start(t, c.model, c.change)
				if code := s.awaitEnd(t); code != 1 {
					t.Errorf("exit %d, want 1", code)
				}
				got := llama.ParseStartError(s.log.lines())
				if strings.Contains(got, c.want) {
					return
				}
				if got != "" {
					t.Fatalf("read %q, want %q in it\n%s", got, c.want, strings.Join(s.log.lines(), "\n"))
				}
			}
			t.Error("ten starts left no reason in their logs")
		})
	}
}

func TestRealModelHeader(t *testing.T) {
	h, err := llama.ReadGGUFFile(testkit.SmolLM2(t))
	if err != nil {
		t.Fatal(err)
	}
	if h.Architecture != "llama" || h.BlockCount != 30 || h.HeadCount != 9 || len(h.HeadCountKV) != 1 || h.HeadCountKV[0] != 3 ||
		h.KeyLength != 64 || h.VocabSize != 49152 || !h.HasChatTemplate || h.Size() != 98362432 {
		t.Errorf("read %+v", h)
	}
	n := llama.Fit(h, h.Size(), 2048, 2, llama.F16, llama.F16)
	if want := int64(2 * 2048 * 30 * 3 * 128 * 2); n.KVBytes != want {
		t.Errorf("cache of %d bytes, want %d", n.KVBytes, want)
	}
}

func localURL(port int) string { return "http://" + net.JoinHostPort(llama.Host, strconv.Itoa(port)) }
