package fakellama

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// exitTerm is what a shell shows for a process that SIGTERM ended; llama-server does so while loading.
const exitTerm = 128 + int(syscall.SIGTERM)

type fake struct {
	cfg     Config
	opt     options
	build   string
	loading atomic.Bool
	asked   atomic.Int64 // completions so far
	waiting atomic.Int64 // completions without a slot
	tokens  atomic.Int64 // generated so far
	millis  atomic.Int64 // that generating them took
	slots   chan struct{}
	crash   chan Crash
}

// run is the whole life of a fake: it returns the exit code.
func run(cfg Config, args []string) int {
	f := &fake{cfg: cfg, build: cmp.Or(cfg.Version, "11434"), crash: make(chan Crash, 1)}
	opt, err := parse(args)
	switch {
	case err != nil:
		logf("%v", err)
		return 1
	case opt.help:
		fmt.Print(helpText)
		return 0
	case opt.version:
		logf("version: %s (pypi)\nbuilt with fakellama for this machine", f.build)
		return 0
	case opt.devices:
		fmt.Println("Available devices:")
		return 0
	}
	f.opt, f.slots = opt, make(chan struct{}, max(1, opt.slots))
	f.loading.Store(true)

	term := make(chan os.Signal, 4)
	signal.Notify(term, syscall.SIGTERM, syscall.SIGINT)
	if cfg.IgnoreTerm {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	}
	if cfg.Spew {
		go spew()
	}
	if c := cfg.CrashOnStart; c != nil {
		logf("%s", c.Stderr)
		return c.Code
	}
	return f.serve(term)
}

// serve binds before it loads, as the real server does, and answers until it is told to end.
func (f *fake) serve(term <-chan os.Signal) int {
	addr := net.JoinHostPort(f.opt.host, strconv.Itoa(f.opt.port))
	l, err := net.Listen("tcp", addr)
	if err != nil {
		logf("srv          start: couldn't bind HTTP server socket, hostname: %s, port: %d", f.opt.host, f.opt.port)
		if f.cfg.BindHang {
			<-term
			return exitTerm
		}
		logf("main: exiting due to HTTP server error")
		return 1
	}
	logf("main: binding port with default address family")
	logf("main: HTTP server is listening, hostname: %s, port: %d", f.opt.host, f.opt.port)
	logf("load_model: loading model '%s'", f.opt.model)
	srv := &http.Server{Handler: f.handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = srv.Serve(l) }()

	loaded := make(chan struct{})
	go func() { defer close(loaded); f.load() }()
	for {
		select {
		case <-loaded:
			loaded = nil
			f.loading.Store(false)
			logf("main: model loaded")
			logf("main: server is listening on http://%s - starting the main loop", addr)
		case c := <-f.crash:
			logf("%s", c.Stderr)
			return c.Code
		case <-term:
			if f.loading.Load() {
				return exitTerm
			}
			logf("srv    operator(): cleaning up before exit...")
			// The real server waits for its open streams for as long as their clients stay.
			_ = srv.Shutdown(context.Background())
			return 0
		}
	}
}

// load takes as long as the script says.
func (f *fake) load() {
	end := time.Now().Add(time.Duration(f.cfg.LoadMS) * time.Millisecond)
	for f.cfg.LoadLines && time.Now().Before(end) {
		logf("load_tensors: layer assigned to device CPU")
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(time.Until(end))
	if f.cfg.GateLoad {
		_ = await(context.Background(), f.cfg.Control, "load")
	}
}

func (f *fake) handler() http.Handler {
	if f.cfg.Squat {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
		})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /props", f.props)
	mux.HandleFunc("GET /v1/models", f.models)
	mux.HandleFunc("GET /slots", f.listSlots)
	mux.HandleFunc("POST /v1/chat/completions", f.chat)
	mux.HandleFunc("POST /completion", f.completion)
	mux.HandleFunc("POST /v1/embeddings", f.unsupported("This server does not support embeddings. Start it with `--embeddings`"))
	metrics := f.unsupported("This server does not support metrics endpoint. Start it with `--metrics`")
	if f.opt.metrics {
		metrics = f.metrics
	}
	mux.HandleFunc("GET /metrics", metrics)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, http.StatusNotFound, "File Not Found", "not_found_error", nil)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", "llama.cpp")
		// Seen on a real build: while it loads it does not look at the key.
		if f.loading.Load() {
			writeError(w, http.StatusServiceUnavailable, "Loading model", "unavailable_error", nil)
			return
		}
		if r.URL.Path != "/health" && !f.authorized(r) {
			writeError(w, http.StatusUnauthorized, "Invalid API Key", "authentication_error", nil)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (f *fake) authorized(r *http.Request) bool {
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	return len(f.opt.keys) == 0 || slices.Contains(f.opt.keys, key) || slices.Contains(f.opt.keys, r.Header.Get("X-Api-Key"))
}

func (f *fake) slotCtx() int { return cmp.Or(f.cfg.Ctx, f.opt.ctx/max(1, f.opt.slots)) }

func (f *fake) props(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{
		"default_generation_settings": map[string]any{"id": 0, "n_ctx": f.slotCtx(), "is_processing": false, "params": map[string]any{}},
		"total_slots":                 cmp.Or(f.cfg.Slots, f.opt.slots),
		"model_path":                  f.opt.model,
		"model_alias":                 f.opt.alias,
		"modalities":                  map[string]bool{"vision": false, "audio": false},
		"chat_template":               "{% for message in messages %}{{ message['content'] }}{% endfor %}",
		"bos_token":                   "<s>",
		"eos_token":                   "</s>",
		"build_info":                  "b" + f.build + "-pypi",
		"is_sleeping":                 false,
	})
}

func (f *fake) models(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{
		"object": "list",
		"data":   []any{map[string]any{"id": f.opt.alias, "object": "model", "created": time.Now().Unix(), "owned_by": "llamacpp"}},
	})
}

func (f *fake) listSlots(w http.ResponseWriter, _ *http.Request) {
	slots := make([]any, 0, cap(f.slots))
	for i := range cap(f.slots) {
		slots = append(slots, map[string]any{"id": i, "n_ctx": f.slotCtx(), "is_processing": i < len(f.slots)})
	}
	writeJSON(w, http.StatusOK, slots)
}

// metrics are the lines of the real server that our programs read.
func (f *fake) metrics(w http.ResponseWriter, _ *http.Request) {
	tokens, seconds := f.tokens.Load(), float64(f.millis.Load())/1000
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprintf(w, "# TYPE llamacpp:tokens_predicted_total counter\nllamacpp:tokens_predicted_total %d\n", tokens)
	fmt.Fprintf(w, "# TYPE llamacpp:tokens_predicted_seconds_total counter\nllamacpp:tokens_predicted_seconds_total %g\n", seconds)
	fmt.Fprintf(w, "# TYPE llamacpp:predicted_tokens_seconds gauge\nllamacpp:predicted_tokens_seconds %g\n", float64(tokens)/max(seconds, 0.001))
	fmt.Fprintf(w, "# TYPE llamacpp:requests_processing gauge\nllamacpp:requests_processing %d\n", len(f.slots))
	fmt.Fprintf(w, "# TYPE llamacpp:requests_deferred gauge\nllamacpp:requests_deferred %d\n", f.waiting.Load())
}

func (f *fake) unsupported(message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, http.StatusNotImplemented, message, "not_supported_error", nil)
	}
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// writeError answers in llama-server's shape, with more fields beside code, message and type.
func writeError(w http.ResponseWriter, status int, message, kind string, more map[string]any) {
	e := map[string]any{"code": status, "message": message, "type": kind}
	for k, v := range more {
		e[k] = v
	}
	writeJSON(w, status, map[string]any{"error": e})
}

// spew floods stderr: many short lines, then bytes without a line end.
func spew() {
	short := []byte(strings.Repeat("ggml_debug: all work and no play\n", 100))
	long := []byte(strings.Repeat("x", 1<<16))
	for {
		for _, b := range [][]byte{short, long} {
			if _, err := os.Stderr.Write(b); err != nil && !errors.Is(err, syscall.EAGAIN) {
				return
			}
		}
	}
}

func logf(format string, args ...any) {
	if text := strings.TrimRight(fmt.Sprintf(format, args...), "\n"); text != "" {
		fmt.Fprintln(os.Stderr, text)
	}
}
