package testkit

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// LlamaServer is the path of a real llama-server: LLAMA_SERVER, PATH, or the development cache, which
// is filled when it is empty. A test that needs one fails without it; it is never skipped.
func LlamaServer(t testing.TB) string {
	t.Helper()
	return devPart(t, "llama-server.sh")
}

// SmolLM2 is the path of a real small model (SmolLM2-135M-Instruct Q4_1, 98 MB) in the development cache.
func SmolLM2(t testing.TB) string {
	t.Helper()
	return devPart(t, "model.sh")
}

// OpenAIPython is a folder for PYTHONPATH with the unmodified OpenAI client of Python.
func OpenAIPython(t testing.TB) string {
	t.Helper()
	return devPart(t, "openai-client.sh")
}

// TUFPython is a folder for PYTHONPATH with the reference implementation of The Update Framework.
func TUFPython(t testing.TB) string {
	t.Helper()
	return devPart(t, "tuf-python.sh")
}

// Root is the folder of the product's module, found from the test's working directory, which go test
// sets to the folder of the package under test. Modules of their own stand below it.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("find the module: %v", err)
	}
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module interlock.sh\n") {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("find the module: no go.mod in or above the working directory")
		}
		dir = parent
	}
}

// devPart runs one of the scripts that print the path of a real part.
func devPart(t testing.TB, script string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(Root(t), "packaging", "dev", script))
	var out, progress bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &progress
	if err := cmd.Run(); err != nil {
		t.Fatalf("packaging/dev/%s on %s/%s: %v\n%s", script, runtime.GOOS, runtime.GOARCH, err, progress.String())
	}
	path := strings.TrimSpace(out.String())
	if path == "" || strings.ContainsAny(path, "\n") {
		t.Fatalf("packaging/dev/%s printed %q, want one path", script, out.String())
	}
	return path
}
