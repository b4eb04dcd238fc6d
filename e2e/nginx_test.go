//go:build linux

package e2e

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"interlock.sh/access"
	"interlock.sh/ai"
	"interlock.sh/client"
	"interlock.sh/fleet"
	"interlock.sh/internal/testkit"
	"interlock.sh/internal/testkit/fakellama"
	"interlock.sh/internal/testkit/gguftiny"
)

// freePort is a port that nothing listens on.
func freePort(t testing.TB) string {
	t.Helper()
	return strconv.Itoa(testkit.FreePort(t))
}

// nginx is Debian's nginx as it is installed (testdata/nginx), with a proxy_pass to upstream in its
// default site. The other changes are of places only: a folder and a port of its own.
type nginx struct {
	dir  string
	base string
}

func startNginx(t testing.TB, port, upstream string) *nginx {
	t.Helper()
	n := &nginx{dir: tempDir(t), base: "http://127.0.0.1:" + port}
	if err := os.Chmod(n.dir, 0o755); err != nil { // its workers are another user
		t.Fatal(err)
	}
	n.write(t, "default", "testdata/nginx/default",
		"listen 80 default_server;", "listen 127.0.0.1:"+port+" default_server;",
		"listen [::]:80 default_server;", "",
		"try_files $uri $uri/ =404;", "proxy_pass "+upstream+";")
	n.write(t, "nginx.conf", "testdata/nginx/nginx.conf",
		"pid /run/nginx.pid;", "pid "+n.dir+"/pid;",
		"/var/log/nginx/", n.dir+"/",
		"include /etc/nginx/modules-enabled/*.conf;", "",
		"include /etc/nginx/conf.d/*.conf;", "client_body_temp_path "+n.dir+"/body; proxy_temp_path "+n.dir+"/proxy;",
		"include /etc/nginx/sites-enabled/*;", "include "+n.dir+"/default;")
	start(t, "nginx", []string{"PATH=" + os.Getenv("PATH")}, "/usr/sbin/nginx", "-c", n.dir+"/nginx.conf", "-e", n.dir+"/error.log", "-g", "daemon off;")
	until(t, "nginx listens", func() error {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			err = c.Close()
		}
		return err
	})
	return n
}

// write writes a file of the configuration, with pairs of texts exchanged that must be there.
func (n *nginx) write(t testing.TB, name, from string, pairs ...string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("%s does not say %q", from, pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// requests counts the lines of the access log that have all of these texts.
func (n *nginx) requests(t testing.TB, texts ...string) (count int) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(n.dir, "access.log"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(line, text)
		}
		if all {
			count++
		}
	}
	return count
}

// large writes a tiny model with so many bytes behind it that nothing reads, as an upload of that size.
func large(t testing.TB, size int64) string {
	t.Helper()
	path := tiny(t, gguftiny.Options{})[0]
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	noise, block := rand.NewChaCha8([32]byte{1}), make([]byte, 1<<20)
	for n := int64(0); n < size; n += int64(len(block)) {
		_, _ = noise.Read(block)
		if _, err := f.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// Behind Debian's nginx with nothing but a proxy_pass added, the whole line works: sign in, upload
// 200 MB in the pieces that nginx lets through, enroll with the pasted line, run, and stream.
func TestBehindDefaultNginx(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	p := newPlane(t, "--public-url", "http://127.0.0.1:"+port)
	n := startNginx(t, port, p.base)
	p.base = n.base
	if got := p.cliWith(nil, p.owner+"\n", "login"); got.code != 0 {
		t.Fatalf("login: %s%s", got.out, got.err)
	}
	p.ok("projects", "new", project)
	registered := fromJSON[fleet.NewGroup](p, "models", "register", "--group", "large")
	p.ok("models", "release", "create", "first", "--group", "large", "--file", large(t, 200<<20), "--license", "test", "--context", "512")
	if sent := n.requests(t, "PUT /api/blobs/uploads/", " 200 "); sent < 200 {
		t.Errorf("nginx let %d pieces through, want 200 of 1 MiB at least", sent)
	}
	p.ok("models", "deploy", "first", "--group", "large", "--alias", "large")

	h := newHost(t, realServer(t))
	h.paste(line(t, registered.Keys, fleet.RoleClient))
	p.connect()
	p.wantReady(registered.Group.ID)
	if said := p.ok("ask", "Hello", "--model", "large", "--max-tokens", "20"); strings.TrimSpace(said) == "" {
		t.Error("the answer is empty")
	}
	if n.requests(t, "GET /assets/install-model-host.sh") == 0 || n.requests(t, "POST /api/machine/heartbeat") == 0 {
		t.Error("the machine did not come through nginx")
	}

	t.Run("stream", func(t *testing.T) {
		control := fakellama.NewControl(t)
		p := p.with(t)
		g, keys := p.tinyGroup("gated")
		control.Step(1) // of the question that decides whether it is ready
		serving(t, p, g.ID, keys, gated(t, control))
		wantLive(t, p, control)
		wantLiveOpenAI(t, p, control)
	})
}

// gated is a model server whose every token waits for the test.
func gated(t testing.TB, c *fakellama.Control) string {
	return fakellama.Install(t, fakellama.Config{Control: c.Path(), GateTokens: true, Tokens: []string{"one", "two", "three"}})
}

// wantLive asks the gated model and fails unless each token is read before the next one is made.
func wantLive(t *testing.T, p *plane, control *fakellama.Control) {
	t.Helper()
	run, err := p.SubmitRun(t.Context(), ai.RunRequest{Model: "gated", Prompt: "Count."})
	if err != nil {
		t.Fatal(err)
	}
	text, parts := "", make(chan string)
	ended := make(chan error, 1)
	go func() {
		_, err := p.FollowRun(t.Context(), run.ID, func(_ string, ev ai.StreamEvent) error {
			if ev.Text != "" {
				parts <- ev.Text
			}
			return nil
		})
		ended <- err
	}()
	for _, want := range []string{"one", "two", "three"} {
		control.Step(1)
		select {
		case got := <-parts:
			if got != want {
				t.Fatalf("read %q behind %q, want %q", got, text, want)
			}
			text += got
		case <-time.After(patience):
			t.Fatalf("%q was made and did not arrive: the stream is held back", want)
		}
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if run, err = p.Run(t.Context(), run.ID); err != nil || run.Answer == nil || *run.Answer != "onetwothree" {
		t.Errorf("the run ended as %+v, %v", run, err)
	}
}

// wantLiveOpenAI is the same through OpenAI's door and client.
func wantLiveOpenAI(t *testing.T, p *plane, control *fakellama.Control) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	api := openai.NewClient(option.WithBaseURL(p.base+"/v1"), option.WithAPIKey(p.key(access.SDK)), option.WithMaxRetries(0))
	control.Step(1) // the headers come with the first words
	stream := api.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
		Model: "gated", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Count.")},
	})
	defer stream.Close()
	for i, want := range []string{"one", "two", "three"} {
		if i > 0 {
			control.Step(1)
		}
		said := ""
		for said == "" && stream.Next() {
			if c := stream.Current(); len(c.Choices) > 0 {
				said = c.Choices[0].Delta.Content
			}
		}
		if said != want {
			t.Fatalf("read %q, want %q: %v", said, want, stream.Err())
		}
	}
	for stream.Next() {
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
}

// connect makes the API client of a plane whose owner signed in by the command line.
func (p *plane) connect() {
	p.t.Helper()
	b, err := os.ReadFile(filepath.Join(p.dir, ".interlock", "config.json"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.token = between(string(b), `"token": "`, `"`)
	if p.Client, err = client.New(client.Options{BaseURL: p.base, Credential: p.token, Project: project, Pin: p.pin}); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(p.Close)
}

// with is the same plane for a subtest.
func (p *plane) with(t *testing.T) *plane {
	same := *p
	same.t = t
	return &same
}

func between(s, before, after string) string {
	_, s, _ = strings.Cut(s, before)
	s, _, _ = strings.Cut(s, after)
	return s
}
