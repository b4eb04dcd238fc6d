package releases

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/testkit/tufrepo"
	"interlock.sh/server/files"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// stored is blobs in memory.
type stored map[string][]byte

func (s stored) Stat(digest string) (files.Info, error) {
	text, ok := s[digest]
	if !ok {
		return files.Info{}, fault.New(fault.ChecksumUnknown, "no blob %s", digest)
	}
	return files.Info{Ref: files.Ref{SHA256: digest, Size: int64(len(text))}}, nil
}

type readable struct{ *bytes.Reader }

func (readable) Close() error { return nil }

func (s stored) Open(digest string) (io.ReadSeekCloser, int64, error) {
	info, err := s.Stat(digest)
	return readable{bytes.NewReader(s[digest])}, info.Size, err
}

// world is a mirror beside a repository that is published to it.
type world struct {
	*Mirror
	t     *testing.T
	repo  *tufrepo.Repo
	blobs stored
	clock *clock.Fake
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, repo: tufrepo.New(t, noon), blobs: stored{}, clock: clock.NewFake(noon)}
	w.repo.Hashes = true
	w.open(filepath.Join(t.TempDir(), "releases"))
	return w
}

// open opens the mirror, as a control plane that starts.
func (w *world) open(dir string) {
	w.Mirror = Open(Options{Dir: dir, Blobs: w.blobs, Clock: w.clock, Logger: slog.New(slog.DiscardHandler)})
}

func target(program, version, platform string, change ...func(*build.Target)) build.Target {
	os, arch, _ := strings.Cut(platform, "-")
	t := build.Target{Program: program, Version: version, OS: os, Arch: arch, Channels: map[string]int{build.Stable: 100}}
	for _, c := range change {
		c(&t)
	}
	return t
}

// add signs a program and stores its bytes.
func (w *world) add(t build.Target) {
	text := []byte("the bytes of " + t.Path())
	w.repo.Add(t, text)
	w.store(text)
}

func (w *world) store(text []byte) string {
	sum := sha256.Sum256(text)
	digest := hex.EncodeToString(sum[:])
	w.blobs[digest] = text
	return digest
}

// send sends everything that the repository has published, the timestamp last.
func (w *world) send() error {
	all := w.repo.Files()
	var names []string
	for name := range all {
		if strings.HasPrefix(name, "metadata/") && name != "metadata/timestamp.json" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range append(names, "metadata/timestamp.json") {
		if err := w.Put(strings.TrimPrefix(name, "metadata/"), bytes.NewReader(all[name])); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) mustSend() {
	w.t.Helper()
	if err := w.send(); err != nil {
		w.t.Fatal(err)
	}
}

// publish publishes a version of interlock and sends it.
func (w *world) publish(version string) {
	w.t.Helper()
	w.add(target(build.Interlock, version, "linux-amd64"))
	w.repo.Publish()
	w.mustSend()
}

// shows checks what machines and the install script see.
func (w *world) shows(version string) {
	w.t.Helper()
	m, ok := w.Manifest()
	if ok != (version != "") || m.Version != version {
		w.t.Fatalf("the manifest is %+v; want version %q", m, version)
	}
	if !ok {
		return
	}
	f, known, err := w.Asset(m.Platforms["linux-amd64"].File)
	if err != nil || !known {
		w.t.Fatal(known, err)
	}
	text, err := io.ReadAll(f)
	if sum := sha256.Sum256(text); err != nil || hex.EncodeToString(sum[:]) != m.Platforms["linux-amd64"].SHA256 {
		w.t.Fatal("the asset is not what its manifest says", err)
	}
}

// served reads a live metadata file; "" is one that is not there.
func (w *world) served(name string) string {
	w.t.Helper()
	f, err := w.Metadata(name)
	if errors.Is(err, fault.NotFound) {
		return ""
	}
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

func refusedWith(t *testing.T, err error, code fault.Code, words string) {
	t.Helper()
	if fault.CodeOf(err) != code || !strings.Contains(err.Error(), words) {
		t.Fatalf("%v (%s); want %s with %q", err, fault.CodeOf(err), code, words)
	}
}
