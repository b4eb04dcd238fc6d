package llama

import (
	"os"
	"slices"
	"testing"
)

func TestParseVersion(t *testing.T) {
	for _, c := range []struct {
		out, version string
		build        int
	}{
		{"version: 6123 (a1b2c3d)\nbuilt with Apple clang for arm64-apple-darwin\n", "6123 (a1b2c3d)", 6123},
		{"version: 0.1.0-dev (build 1, commit 7e4c0a9)\nbuilt with GNU 11.4.0\n", "0.1.0-dev (build 1, commit 7e4c0a9)", 1},
		{"ggml_cuda_init: found 1 CUDA devices:\nversion: 11434 (pypi)\r\n", "11434 (pypi)", 11434},
		{"version: 999999999999999999999999 (x)\n", "999999999999999999999999 (x)", 0},
		{"hello\n", "unknown", 0},
	} {
		version, build := parseVersion(c.out)
		if version != c.version || build != c.build {
			t.Errorf("parseVersion(%q) = %q, %d; want %q, %d", c.out, version, build, c.version, c.build)
		}
	}
}

func TestParseFlagsReadsNamesAndNotDescriptions(t *testing.T) {
	help, err := os.ReadFile("testdata/help.txt")
	if err != nil {
		t.Fatal(err)
	}
	flags := parseFlags(string(help))
	for _, want := range []string{
		"-t", "--threads", "--host", "--port", "-m", "--model", "-c", "--ctx-size", "-np", "--parallel",
		"-a", "--alias", "--api-key", "--api-key-file", "--metrics", "--slots", "--no-slots", "--jinja",
		"--webui", "--no-webui", "-ngl", "--n-gpu-layers", "-cram", "--cache-ram", "--no-agent", "--no-kv-offload",
	} {
		if !flags.Has(want) {
			t.Errorf("%s is in the help and was not read", want)
		}
	}
	// These occur only inside descriptions.
	for _, not := range []string{"--cors-origins", "--flash-attn-auto"} {
		if flags.Has(not) {
			t.Errorf("%s was read from a description", not)
		}
	}
	if missing := (Binary{Flags: flags}).MissingFlags(); len(missing) != 0 {
		t.Errorf("missing %v in a build that has all", missing)
	}
}

func TestParseDevices(t *testing.T) {
	for _, c := range []struct {
		name, out string
		gpus      []string
		known     bool
	}{
		{"none", "Available devices:\n  (none)\n", nil, true},
		{"cuda", "ggml_cuda_init: found 1 CUDA devices\nAvailable devices:\n  CUDA0: NVIDIA GeForce RTX 4090 (24217 MiB, 23000 MiB free)\n",
			[]string{"CUDA0: NVIDIA GeForce RTX 4090 (24217 MiB, 23000 MiB free)"}, true},
		{"a Mac lists Accelerate beside the GPU", "Available devices:\n  Metal: Apple M1 (10922 MiB, 10922 MiB free)\n  BLAS: Accelerate (0 MiB, 0 MiB free)\n",
			[]string{"Metal: Apple M1 (10922 MiB, 10922 MiB free)"}, true},
		{"a build that does not list", "error: invalid argument: --list-devices\n", nil, false},
	} {
		gpus, known := parseDevices(c.out)
		if !slices.Equal(gpus, c.gpus) || known != c.known {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, gpus, known, c.gpus, c.known)
		}
	}
}
