package llama

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"interlock.sh/fault"
	"interlock.sh/internal/testkit"
)

// program writes a shell script that stands for llama-server.
func program(t *testing.T, dir, script string) string {
	t.Helper()
	path := filepath.Join(dir, "llama-server")
	testkit.WriteProgram(t, path, []byte("#!/bin/sh\n"+script))
	return path
}

const helpful = `case "$1" in
--version) echo "version: 7000 (abc)" >&2 ;;
--help) printf -- '--host HOST             address\n--port PORT             port\n-m,    --model FNAME    model\n-c,    --ctx-size N     context\n-np,   --parallel N     slots\n-a,    --alias S        name\n--list-devices          list\n' ;;
--list-devices) printf 'Available devices:\n  Vulkan0: Some GPU (1 MiB)\n' ;;
esac
`

func TestFindOrder(t *testing.T) {
	setting, env, inPath, prefix := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	for _, d := range []string{setting, env, inPath, prefix} {
		program(t, d, helpful)
	}
	join := func(d string) string { return filepath.Join(d, "llama-server") }
	absent := func(string) (string, error) { return "", exec.ErrNotFound }
	for _, c := range []struct {
		name    string
		finder  finder
		setting string
		want    string
	}{
		{"setting first", finder{env: join(env)}, join(setting), join(setting)},
		{"then LLAMA_SERVER", finder{env: join(env)}, "", join(env)},
		{"then PATH", finder{prefixes: []string{prefix}, lookPath: func(string) (string, error) { return join(inPath), nil }}, "", join(inPath)},
		{"then the prefixes, in order", finder{prefixes: []string{t.TempDir(), prefix, inPath}, lookPath: absent}, "", join(prefix)},
	} {
		if got, err := c.finder.find(c.setting); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

func TestFindMissingSaysHowToInstall(t *testing.T) {
	absent := func(string) (string, error) { return "", exec.ErrNotFound }
	for goos, line := range map[string]string{"darwin": "brew install llama.cpp", "linux": "unpack the Linux build"} {
		_, err := finder{lookPath: absent, prefixes: []string{t.TempDir()}, goos: goos}.find("")
		if !errors.Is(err, fault.NotFound) || !strings.HasPrefix(err.Error(), "llama-server not found") || !strings.Contains(err.Error(), line) {
			t.Errorf("%s: %v", goos, err)
		}
	}
}

func TestFindNamedButWrong(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, why := range map[string]string{filepath.Join(dir, "absent"): "no such file", dir: "it is no file", plain: "it is not executable"} {
		_, err := Find(t.Context(), path)
		if !errors.Is(err, fault.NotFound) || !strings.HasPrefix(err.Error(), "llama-server not found") || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q in it", path, err, why)
		}
	}
}

func TestFindDescribes(t *testing.T) {
	b, err := Find(t.Context(), program(t, t.TempDir(), helpful))
	if err != nil {
		t.Fatal(err)
	}
	if b.Version != "7000 (abc)" || b.Build != 7000 || !b.DevicesKnown || len(b.GPUs) != 1 || b.CPUOnly() {
		t.Errorf("described as %+v", b)
	}
	if err := b.Check(); err != nil {
		t.Errorf("a build with every needed option was refused: %v", err)
	}
	delete(b.Flags, "--alias")
	delete(b.Flags, "--parallel")
	if err := b.Check(); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "does not know --alias, --parallel") {
		t.Errorf("a build without two needed options: %v", err)
	}
}

func TestFindBroken(t *testing.T) {
	for name, c := range map[string]struct{ script, why string }{
		"ends with an error":             {"echo 'libggml.so: cannot open shared object file' >&2; exit 127", "libggml.so: cannot open shared object file"},
		"dies of an illegal instruction": {"kill -ILL $$", "illegal instruction"},
	} {
		_, err := Find(t.Context(), program(t, t.TempDir(), c.script))
		if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "does not run") || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
