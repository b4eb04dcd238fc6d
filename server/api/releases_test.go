package api_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet/build"
	"interlock.sh/installer"
	kit "interlock.sh/internal/testkit/plane"
	"interlock.sh/internal/testkit/tufrepo"
	"interlock.sh/server"
)

// sendReleases publishes a repository to the world's control plane as the owner.
func (w *world) sendReleases(repo *tufrepo.Repo) error {
	w.t.Helper()
	all := repo.Files()
	var names []string
	for name, text := range all {
		if metadata, ok := strings.CutPrefix(name, "metadata/"); ok && metadata != "timestamp.json" {
			names = append(names, metadata)
		} else if !ok {
			path := filepath.Join(w.t.TempDir(), "program")
			if err := os.WriteFile(path, text, 0o644); err != nil {
				w.t.Fatal(err)
			}
			if _, err := w.mine.Upload(w.t.Context(), path, client.Transfer{}); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	slices.Sort(names)
	for _, name := range append(names, "timestamp.json") {
		if err := w.mine.PutReleaseMetadata(w.t.Context(), name, all["metadata/"+name]); err != nil {
			return err
		}
	}
	return nil
}

func aRelease(version string) build.Target {
	return build.Target{Program: build.Interlock, Version: version, OS: "linux", Arch: "amd64", Channels: map[string]int{build.Stable: 100}}
}

// Anybody reads what the owner published; programs come in ranges and may be kept for ever.
func TestReleasesOverHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	repo := tufrepo.New(t, noon)
	if got := w.call("GET", tufrepo.Base+"/metadata/timestamp.json", "", nil); got.status != 404 {
		t.Error("before anything is published:", got.status, got.body)
	}
	text := []byte("the program of version 1.0.0")
	repo.Add(aRelease("1.0.0"), text)
	repo.Publish()
	if err := w.sendReleases(repo); err != nil {
		t.Fatal(err)
	}
	for name, cached := range map[string]bool{"1.root.json": true, "2.targets.json": true, "2.snapshot.json": true, "timestamp.json": false} {
		got := w.call("GET", tufrepo.Base+"/metadata/"+name, "", nil)
		if got.body != string(repo.File("metadata/"+name)) || got.header.Get("Content-Type") != "application/json" ||
			strings.Contains(got.header.Get("Cache-Control"), "immutable") != cached || !cached && got.header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %d %v", name, got.status, got.header)
		}
	}
	for path := range repo.Files() {
		if !strings.HasPrefix(path, "targets/") {
			continue
		}
		got := w.call("GET", tufrepo.Base+"/"+path, "", nil)
		if got.body != string(text) || got.header.Get("ETag") == "" || !strings.Contains(got.header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", path, got.status, got.header)
		}
		req, err := http.NewRequestWithContext(t.Context(), "GET", w.URL+tufrepo.Base+"/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Range", "bytes=4-")
		resp, err := w.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusPartialContent || resp.ContentLength != int64(len(text)-4) {
			t.Error("a range:", resp.StatusCode, resp.ContentLength)
		}
	}
	for _, path := range []string{"/metadata/2.root.json", "/metadata/..%2Ftimestamp.json", "/targets/interlock/1.0.0/interlock-linux-amd64", "/targets/x"} {
		if got := w.call("GET", tufrepo.Base+path, "", nil); got.err.Code != fault.NotFound {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

func TestARefusedReleaseSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	repo := tufrepo.New(t, noon)
	repo.Add(aRelease("1.0.0"), []byte("one"))
	repo.Publish()
	if err := w.sendReleases(repo); err != nil {
		t.Fatal(err)
	}
	put := func(file, body string) reply {
		return w.call("PUT", "/api/releases/metadata/"+file, w.creds["account"], body)
	}
	w.refused("an older timestamp", put("timestamp.json", string(tufrepo.New(t, noon).File("metadata/timestamp.json"))), fault.Invalid, "")
	w.refused("no metadata", put("timestamp.json", "hello"), fault.Malformed, "body")
	w.refused("a name with a path", put("..%2F..%2Finterlock.db", "{}"), fault.NotFound, "")
	w.refused("another's root", put("1.root.json", string(tufrepo.New(t, noon).File("metadata/1.root.json"))), fault.ReleaseConflict, "")
	w.refused("too large for its role", put("timestamp.json", strings.Repeat(" ", 20_000)), fault.TooLarge, "")
	w.refused("too large for the route", put("9.targets.json", strings.Repeat(" ", 5_000_001)), fault.TooLarge, "")
	if got := w.call("GET", tufrepo.Base+"/metadata/timestamp.json", "", nil); got.body != string(repo.File("metadata/timestamp.json")) {
		t.Error("a refused set changed what is live:", got.body)
	}
}

// The install script's manifest and files come from the signed release as soon as there is one, and stay
// those of the folder of assets for everything else.
func TestTheInstallScriptGetsTheSignedRelease(t *testing.T) {
	t.Parallel()
	assets := t.TempDir()
	for name, text := range map[string]string{"interlock-linux-amd64": "unsigned", "interlock-linux-arm64": "unsigned", "nightshift-linux-amd64": "unsigned"} {
		if err := os.WriteFile(filepath.Join(assets, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m, err := installer.BuildManifest(assets, "0.1.0")
	if err == nil {
		err = installer.WriteManifest(assets, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldWith(t, kit.Options{Change: func(c *server.Config) { c.Assets = assets }})
	manifest := func() installer.Manifest {
		t.Helper()
		var m installer.Manifest
		if err := json.Unmarshal([]byte(w.call("GET", "/model-worker/manifest.json", "", nil).body), &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	if got := manifest(); got.Version != "0.1.0" || len(got.Platforms) != 2 {
		t.Errorf("%+v", got)
	}
	repo := tufrepo.New(t, noon)
	repo.Add(aRelease("1.0.0"), []byte("signed"))
	repo.Publish()
	if err := w.sendReleases(repo); err != nil {
		t.Fatal(err)
	}
	if got := manifest(); got.Version != "1.0.0" || len(got.Platforms) != 1 || got.Platforms["linux-amd64"].Size != 6 {
		t.Errorf("%+v", got)
	}
	for path, want := range map[string]string{
		"/assets/interlock-linux-amd64": "signed", "/assets/nightshift-linux.json": "{\n  \"schema\": 1,\n  \"version\": \"0.1.0\"", "/assets/install-model-host.sh": "#!/bin/sh",
	} {
		if got := w.call("GET", path, "", nil); !strings.HasPrefix(got.body, want) {
			t.Errorf("%s: %d %.40q", path, got.status, got.body)
		}
	}
	got := w.call("GET", "/assets/interlock-linux-arm64", "", nil)
	w.refused("another version than the manifest's", got, fault.NotFound, "")
	nightshift := aRelease("0.3.0")
	nightshift.Program = build.Nightshift
	repo.Add(nightshift, []byte("moon"))
	repo.Publish()
	if err := w.sendReleases(repo); err != nil {
		t.Fatal(err)
	}
	if got := w.call("GET", "/assets/nightshift-linux.json", "", nil); !strings.Contains(got.body, `"file":"nightshift-linux-amd64"`) {
		t.Error(got.body)
	}
	if got := w.call("GET", "/assets/nightshift-linux-amd64", "", nil); got.body != "moon" {
		t.Error(got.body)
	}
}
