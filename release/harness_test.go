package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"
	"github.com/theupdateframework/go-tuf/v2/metadata/config"
	"github.com/theupdateframework/go-tuf/v2/metadata/updater"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
	"interlock.sh/internal/clock"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// lab is a release machine with a repository and its keys.
type lab struct {
	t     testing.TB
	dir   string
	keys  string
	clock *clock.Fake
	asked []string // names of the keys whose passphrases were asked for
}

func passphraseOf(key string) string { return "the passphrase of " + key }

// newLab makes a repository with two of three root keys.
func newLab(t testing.TB) *lab {
	t.Helper()
	l := &lab{t: t, dir: filepath.Join(t.TempDir(), "repository"), keys: filepath.Join(t.TempDir(), "keys"), clock: clock.NewFake(noon)}
	r, err := Init(t.Context(), l.dir, Layout{RootKeys: 3, Threshold: 2}, DefaultSettings(), l.ring(), l.clock)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	return l
}

// ringOf is the keys of some folders, whose passphrases everybody knows.
func ringOf(dirs ...string) (*Keyring, error) {
	k, err := NewKeyring(dirs, func(_ context.Context, key string, _ bool) (string, error) { return passphraseOf(key), nil }, MinCost)
	if err == nil {
		k.cost = 4 // so that a test need not wait for what makes guesses dear
	}
	return k, err
}

// ring is the keys of the folders, or of the lab's own, and notes which passphrases are asked for.
func (l *lab) ring(dirs ...string) *Keyring {
	l.t.Helper()
	if len(dirs) == 0 {
		dirs = []string{l.keys}
	}
	k, err := ringOf(dirs...)
	if err != nil {
		l.t.Fatal(err)
	}
	k.ask = func(_ context.Context, key string, _ bool) (string, error) {
		l.asked = append(l.asked, key)
		return passphraseOf(key), nil
	}
	return k
}

// with opens the repository for one command.
func (l *lab) with(do func(r *Repository) error) error {
	l.t.Helper()
	r, err := Open(l.dir, l.clock)
	if err != nil {
		return err
	}
	defer r.Close()
	return do(r)
}

func (l *lab) must(do func(r *Repository) error) {
	l.t.Helper()
	if err := l.with(do); err != nil {
		l.t.Fatal(err)
	}
}

var heads = map[string]string{
	"linux-amd64": "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x3e\x00",
	"linux-arm64": "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00",
}

// dist builds programs: "interlock-linux-amd64" and the like; say makes their bytes differ.
func (l *lab) dist(version, say string, names ...string) (Description, string) {
	l.t.Helper()
	dir := l.t.TempDir()
	for _, name := range names {
		parts := strings.Split(name, "-")
		head := heads[strings.Join(parts[len(parts)-2:], "-")]
		if err := os.WriteFile(filepath.Join(dir, name), []byte(head+name+version+say), 0o755); err != nil {
			l.t.Fatal(err)
		}
	}
	d, err := Describe(dir, version)
	if err != nil {
		l.t.Fatal(err)
	}
	return d, dir
}

var everybody = Offer{Channels: map[string]int{build.Stable: 100}}

// sign signs a version of interlock for the platforms.
func (l *lab) sign(version string, platforms ...string) {
	l.t.Helper()
	var names []string
	for _, p := range platforms {
		names = append(names, "interlock-"+p)
	}
	d, dir := l.dist(version, "", names...)
	l.must(func(r *Repository) error {
		n, err := r.Sign(l.t.Context(), d, dir, everybody, l.ring())
		if err == nil && n != len(platforms) {
			return fmt.Errorf("%d files were signed", n)
		}
		return err
	})
}

func (l *lab) publish() Published {
	l.t.Helper()
	var out Published
	l.must(func(r *Repository) (err error) {
		out, err = r.Publish(l.t.Context(), l.ring())
		return err
	})
	return out
}

// fromDisk fetches from a folder as from a server.
type fromDisk struct{ dir string }

// DownloadFile reads a file below the folder; the path comes behind a made-up origin.
func (f fromDisk) DownloadFile(url string, limit int64, _ time.Duration) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(f.dir, strings.TrimPrefix(url, "https://mirror/")))
	if err != nil {
		return nil, &metadata.ErrDownloadHTTP{StatusCode: 404, URL: url}
	}
	if int64(len(text)) > limit {
		return nil, errors.New("too long")
	}
	return text, nil
}

// machine is a client of the repository with a trust of its own.
type machine struct {
	l     *lab
	root  []byte
	cache string
}

func (l *lab) machine() *machine {
	l.t.Helper()
	root, err := os.ReadFile(filepath.Join(l.dir, "metadata/1.root.json"))
	if err != nil {
		l.t.Fatal(err)
	}
	return &machine{l: l, root: root, cache: l.t.TempDir()}
}

// update reads the repository and returns the paths that it offers, checking the bytes of each.
func (m *machine) update() ([]string, error) {
	cfg, err := config.New("https://mirror/metadata", m.root)
	if err != nil {
		return nil, err
	}
	cfg.RemoteTargetsURL, cfg.Fetcher = "https://mirror/targets", fromDisk{m.l.dir}
	cfg.LocalMetadataDir, cfg.LocalTargetsDir = m.cache, m.l.t.TempDir()
	u, err := updater.New(cfg)
	if err != nil {
		return nil, err
	}
	u.UnsafeSetRefTime(m.l.clock.Now())
	if err := u.Refresh(); err != nil {
		return nil, err
	}
	var out []string
	for path, f := range u.GetTopLevelTargets() {
		f.Path = path
		if _, _, err := u.DownloadTarget(f, "", ""); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if _, err := build.Decode(path, *f.Custom); err != nil {
			return nil, err
		}
		out = append(out, path)
	}
	return out, nil
}

func (m *machine) sees(n int) {
	m.l.t.Helper()
	got, err := m.update()
	if err != nil || len(got) != n {
		m.l.t.Fatalf("the machine sees %v, %v; want %d programs", got, err, n)
	}
}

func refusedWith(t testing.TB, err error, code fault.Code, words string) {
	t.Helper()
	if fault.CodeOf(err) != code || !strings.Contains(err.Error(), words) {
		t.Fatalf("%v (%s); want %s with %q", err, fault.CodeOf(err), code, words)
	}
}
