package installer

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"interlock.sh/fault"
)

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestBuildManifest(t *testing.T) {
	dir := folder(t, map[string]string{
		"interlock-linux-amd64": "abc", "interlock-darwin-arm64": "", "interlock-tui-linux-amd64": "x", "README": "x",
	})
	m, err := BuildManifest(dir, "0.1.0-dev.g123")
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteManifest(dir, m); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, ManifestName))
	if err != nil {
		t.Fatal(err)
	}
	var got Manifest
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Schema != 1 || got.Version != "0.1.0-dev.g123" {
		t.Errorf("schema %d, version %q", got.Schema, got.Version)
	}
	if names := slices.Sorted(maps.Keys(got.Platforms)); !slices.Equal(names, []string{"darwin-arm64", "linux-amd64"}) {
		t.Errorf("platforms %v", names)
	}
	want := Build{"interlock-linux-amd64", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", 3}
	if got.Platforms["linux-amd64"] != want {
		t.Errorf("linux-amd64 is %+v", got.Platforms["linux-amd64"])
	}
}

func TestTheMenuBarAppHasAPointerWhileABuildOfItIsThere(t *testing.T) {
	dir := folder(t, map[string]string{"interlock-linux-amd64": "abc", "nightshift-linux-amd64": "xyz"})
	write := func() {
		t.Helper()
		m, err := BuildManifest(dir, "1.0.0")
		if err != nil {
			t.Fatal(err)
		}
		if err := WriteManifest(dir, m); err != nil {
			t.Fatal(err)
		}
	}
	write()
	text, err := os.ReadFile(filepath.Join(dir, PointerName))
	if err != nil {
		t.Fatal(err)
	}
	var got Manifest
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if b := got.Platforms["linux-amd64"]; len(got.Platforms) != 1 || b.File != "nightshift-linux-amd64" || b.Size != 3 || got.Version != "1.0.0" {
		t.Errorf("the pointer says %+v", got)
	}
	if err := os.Remove(filepath.Join(dir, "nightshift-linux-amd64")); err != nil {
		t.Fatal(err)
	}
	write()
	if _, err := os.Stat(filepath.Join(dir, PointerName)); !os.IsNotExist(err) {
		t.Errorf("a pointer to a build that is gone: %v", err)
	}
}

func TestBuildManifestRefuses(t *testing.T) {
	full := folder(t, map[string]string{"interlock-linux-amd64": "abc"})
	for _, version := range []string{"", "../up", "a/b", ".hidden", "-x", `1"2`, "1 2", "1\n"} {
		if _, err := BuildManifest(full, version); !errors.Is(err, fault.Invalid) {
			t.Errorf("version %q: %v", version, err)
		}
	}
	if _, err := BuildManifest(t.TempDir(), "1"); !errors.Is(err, fault.NotFound) {
		t.Errorf("an empty folder: %v", err)
	}
}

func TestOpenAsset(t *testing.T) {
	dir := folder(t, map[string]string{"interlock-linux-amd64": "abc"})
	for name, want := range map[string]string{"interlock-linux-amd64": "abc", ScriptName: string(script)} {
		a, err := OpenAsset(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(a)
		if err != nil || string(got) != want || a.Size != int64(len(want)) {
			t.Errorf("%s: %d bytes of %d, %v", name, len(got), a.Size, err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenAssetRefuses(t *testing.T) {
	outside := folder(t, map[string]string{"secret": "s"})
	dir := folder(t, map[string]string{".hidden": "x"})
	if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ dir, name, want string }{
		{dir, "interlock-plan9-arm64", "no build for plan9-arm64 in this server's assets (run make dist, or install by hand)"},
		{"", "interlock-linux-amd64", "this server offers no builds"},
		{filepath.Join(dir, "gone"), "interlock-linux-amd64", "no build for linux-amd64"},
		{dir, ManifestName, "no manifest in this server's assets"},
		{dir, "../" + filepath.Base(outside) + "/secret", "no asset is named"},
		{dir, filepath.Join(outside, "secret"), "no asset is named"},
		{dir, "link", "no asset is named"},
		{dir, "sub", "no asset is named"},
		{dir, ".hidden", "no asset is named"},
		{dir, "", "no asset is named"},
		{dir, "a\x00b", "no asset is named"},
	} {
		_, err := OpenAsset(c.dir, c.name)
		if !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("OpenAsset(%q) said %v, want %q", c.name, err, c.want)
		}
	}
}
