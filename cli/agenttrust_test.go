package cli

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"interlock.sh/agent/enrollment"
	"interlock.sh/fleet"
	"interlock.sh/internal/testkit/plane"
	"interlock.sh/internal/testkit/tufrepo"
	"interlock.sh/updater"
)

// originWith is a control plane with releases of its own, as an enrollment sees it.
func originWith(t *testing.T, p *plane.Plane, releases http.Handler) string {
	t.Helper()
	to, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", httputil.NewSingleHostReverseProxy(to))
	mux.Handle(tufrepo.Base+"/", releases)
	return tufrepo.Serve(t, mux).URL
}

// An enrollment pins the root of trust of its control plane once, says which, and works without one.
func TestEnrollPinsTheRootOfTrust(t *testing.T) {
	p := plane.Start(t, plane.Options{})
	group := p.NewGroup(nil, "garage")
	repo, other := tufrepo.New(t, time.Now()), tufrepo.New(t, time.Now())
	repo.Publish()
	other.Publish()
	broken := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"signed":`)) })

	enroll := func(home, origin string) string {
		t.Helper()
		t.Setenv(enrollment.EnvHome, home)
		l := &lab{T: t, home: enrollment.Home(home), in: group.Keys[fleet.RoleClient] + "\n"}
		code, out, errs := l.interlock("agent", "enroll", "--url", origin, "--group", "garage", "--role", "client", "--name", "den", "--key-stdin")
		if code != 0 || !strings.Contains(out, "enrolled as den") {
			t.Fatalf("exit code %d\n%s%s", code, out, errs)
		}
		return errs
	}
	home := func() string { return filepath.Join(t.TempDir(), "ns") }
	pinned := func(home string) string { return updater.Fingerprint(filepath.Join(home, "app")) }

	t.Run("the first is pinned, once", func(t *testing.T) {
		home, origin := home(), originWith(t, p, repo)
		words := enroll(home, origin)
		if id := pinned(home); id == "" || !strings.Contains(words, "updates are trusted from now on by the root that "+origin+" showed (SHA-256 "+id+")") {
			t.Errorf("pinned %q, said\n%s", id, words)
		}
		if again := enroll(home, origin); strings.Contains(again, "trusted") {
			t.Errorf("again it said\n%s", again)
		}
	})
	t.Run("a control plane without releases", func(t *testing.T) {
		home := home()
		words := enroll(home, originWith(t, p, http.NotFoundHandler()))
		if _, err := os.Stat(filepath.Join(home, "app")); !os.IsNotExist(err) || strings.Contains(words, "trust") {
			t.Errorf("%v; it said\n%s", err, words)
		}
	})
	t.Run("one whose releases cannot be read", func(t *testing.T) {
		home := home()
		words := enroll(home, originWith(t, p, broken))
		if pinned(home) != "" || !strings.Contains(words, "no root of trust was pinned, the updater tries again: ") {
			t.Errorf("it said\n%s", words)
		}
	})
	t.Run("another root than the machine's", func(t *testing.T) {
		home := home()
		enroll(home, originWith(t, p, repo))
		held := pinned(home)
		if err := os.RemoveAll(filepath.Join(home, "groups")); err != nil {
			t.Fatal(err)
		}
		words := enroll(home, originWith(t, p, other))
		if apps, _ := filepath.Glob(filepath.Join(home, "app*")); len(apps) != 1 || pinned(home) != held || !strings.Contains(words, "another root of trust than the programs of this machine") {
			t.Errorf("%v; it said\n%s", apps, words)
		}
	})
}
