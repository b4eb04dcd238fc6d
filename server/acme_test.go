package server_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"interlock.sh/internal/testkit"
	kit "interlock.sh/internal/testkit/plane"
	"interlock.sh/server"
)

const domain = "fleet.example.com"

// authorized is a control plane with certificates of an authority.
type authorized struct {
	t    *testing.T
	ca   *acmeCA
	dir  string
	log  *logged
	addr string // of https
	http string // of plain http; "" without

	nobody string // where the authority looks instead of addr
	stop   func() error
}

// logged keeps the log's text.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// freePort is an address on loopback where nothing listens.
func freePort(t *testing.T) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(testkit.FreePort(t)))
}

func (a *authorized) start() {
	a.t.Helper()
	listening := make(chan string, 1)
	c := server.Config{
		Data: a.dir, Listen: "127.0.0.1:0", PublicURL: "https://" + domain, Version: "test", HTTPListen: a.http,
		ACMEDomains: []string{"Fleet.Example.com."}, ACMEEmail: "ops@example.com", ACMEDirectory: a.ca.url + "/directory",
		Logger: slog.New(slog.NewTextHandler(a.log, nil)), Listening: func(base, _ string) { listening <- base },
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	// The authority looks for the server before anybody knows its port.
	ready := make(chan struct{})
	a.ca.mu.Lock()
	a.ca.alpn = func() string { <-ready; return cmp.Or(a.nobody, a.addr) }
	a.ca.plain = nil
	if a.http != "" {
		a.ca.plain = func() string { return a.http }
	}
	a.ca.mu.Unlock()
	go func() { ended <- server.Run(ctx, c) }()
	select {
	case base := <-listening:
		a.addr = strings.TrimPrefix(base, "https://")
		close(ready)
	case err := <-ended:
		a.t.Fatal("the control plane did not start:", err)
	}
	a.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	a.t.Cleanup(func() { _ = a.stop() })
}

func newAuthorized(t *testing.T, change ...func(*authorized)) *authorized {
	t.Helper()
	a := &authorized{t: t, ca: newACMECA(t, domain), dir: filepath.Join(t.TempDir(), "data"), log: &logged{}}
	for _, c := range change {
		c(a)
	}
	a.start()
	return a
}

// client reaches the server as the domain, and trusts the authority alone.
func (a *authorized) client() *http.Client {
	t := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, a.addr)
		},
		TLSClientConfig: &tls.Config{RootCAs: a.ca.roots()}, ForceAttemptHTTP2: true,
	}
	a.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (a *authorized) get(url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := a.client().Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	return resp, err
}

func TestCertificatesOfAnAuthority(t *testing.T) {
	for name, c := range map[string]struct {
		http string
		kind string
	}{
		"by TLS-ALPN-01": {"", "alpn"},
		"by HTTP-01":     {freePort(t), "http"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuthorized(t, func(a *authorized) { a.http = c.http })
			resp, err := a.get("https://" + domain + "/q/health")
			if err != nil || resp.StatusCode != 200 || resp.ProtoMajor != 2 {
				t.Fatalf("%v, %v\n%s", resp, err, a.log)
			}
			a.ca.mu.Lock()
			if !slices.Equal(a.ca.checked, []string{c.kind}) || a.ca.orders != 1 || !slices.Equal(a.ca.contact, []string{"mailto:ops@example.com"}) {
				t.Errorf("checked %v, %d orders, contact %v, %v", a.ca.checked, a.ca.orders, a.ca.contact, a.ca.problems)
			}
			a.ca.mu.Unlock()
			// Who names no server gets the same certificate; who names another one gets none.
			for name, ok := range map[string]bool{"": true, domain: true, "FLEET.example.com": true, "other.example.com": false} {
				conn, err := tls.Dial("tcp", a.addr, &tls.Config{ServerName: name, InsecureSkipVerify: true}) //nolint:gosec // looked at below
				if err == nil {
					if got := conn.ConnectionState().PeerCertificates[0].DNSNames; !slices.Equal(got, []string{domain}) {
						t.Errorf("for %q: a certificate of %v", name, got)
					}
					_ = conn.Close()
				}
				if (err == nil) != ok {
					t.Errorf("for %q: %v", name, err)
				}
			}
			dir := filepath.Join(a.dir, "tls", "acme")
			if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%s: %v, %v", dir, info.Mode(), err)
			}
			files := 0
			_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if info, statErr := d.Info(); err == nil && statErr == nil && !d.IsDir() {
					files++
					if info.Mode().Perm() != 0o600 {
						t.Errorf("%s has mode %v", path, info.Mode())
					}
				}
				return err
			})
			if files == 0 {
				t.Error("nothing was kept")
			}

			// A new start uses what was kept, and asks for nothing.
			if err := a.stop(); err != nil {
				t.Error(err)
			}
			a.start()
			if resp, err := a.get("https://" + domain + "/q/health"); err != nil || resp.StatusCode != 200 {
				t.Errorf("%v, %v", resp, err)
			}
			a.ca.mu.Lock()
			defer a.ca.mu.Unlock()
			if a.ca.orders != 1 {
				t.Errorf("%d orders", a.ca.orders)
			}
		})
	}
}

// Plain http leads to https and nowhere else, whatever host the caller names.
func TestPlainHTTPLeadsToHTTPS(t *testing.T) {
	a := newAuthorized(t, func(a *authorized) { a.http = freePort(t) })
	for _, host := range []string{domain, "evil.example.com"} {
		for method, want := range map[string]int{"GET": 302, "HEAD": 302, "POST": 400, "PUT": 400, "DELETE": 400} {
			req, err := http.NewRequestWithContext(t.Context(), method, "http://"+a.http+"/api/tasks?x=1", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			location := resp.Header.Get("Location")
			if resp.StatusCode != want || want == 302 && location != "https://"+domain+"/api/tasks?x=1" || want == 400 && location != "" {
				t.Errorf("%s for %s: %d to %q", method, host, resp.StatusCode, location)
			}
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// An authority that refuses is asked once, however many callers knock; the log says why.
func TestAnAuthorityThatRefuses(t *testing.T) {
	a := newAuthorized(t, func(a *authorized) { a.ca.refuse = true })
	kit.Await(t, "a word in the log", func() bool { return strings.Contains(a.log.String(), "policy forbids "+domain) })
	for range 20 {
		if _, err := a.get("https://" + domain + "/q/health"); err == nil {
			t.Fatal("it has a certificate")
		}
	}
	a.ca.mu.Lock()
	defer a.ca.mu.Unlock()
	if a.ca.orders != 1 {
		t.Errorf("%d orders", a.ca.orders)
	}
	if n := strings.Count(a.log.String(), "no certificate from the ACME authority"); n != 1 {
		t.Errorf("%d words in the log:\n%s", n, a.log)
	}
}

// A challenge that fails is logged with the authority's own reason.
func TestAChallengeThatFails(t *testing.T) {
	a := newAuthorized(t, func(a *authorized) { a.nobody = freePort(t) })
	kit.Await(t, "the reason in the log", func() bool {
		text := a.log.String()
		return strings.Contains(text, "tls-alpn-01: ") && strings.Contains(text, "connection refused")
	})
}

// A control plane that goes down does not wait for an authority that never answers.
func TestAnAuthorityThatNeverAnswers(t *testing.T) {
	hang := make(chan struct{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	srv := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(asked); <-hang })}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	t.Cleanup(func() { close(hang); _ = srv.Close(); <-done })
	a := newAuthorized(t, func(a *authorized) { a.ca.url = "http://" + l.Addr().String() })
	<-asked
	if err := a.stop(); err != nil {
		t.Error(err)
	}
}
