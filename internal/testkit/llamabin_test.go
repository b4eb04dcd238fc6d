package testkit

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// run runs one of the scripts with one more variable and gives its output and error text.
func run(t *testing.T, script, env string) (out, progress string, err error) {
	t.Helper()
	cmd := exec.Command(filepath.Join(Root(t), "packaging", "dev", script))
	cmd.Env = append(os.Environ(), env)
	var o, p bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &p
	err = cmd.Run()
	return o.String(), p.String(), err
}

func TestNamedServerComesFirst(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "my-server")
	if err := os.WriteFile(own, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, progress, err := run(t, "llama-server.sh", "LLAMA_SERVER="+own); err != nil || out != own+"\n" || progress != "" {
		t.Errorf("printed %q and %q, %v; want the path alone", out, progress, err)
	}
	out, progress, err := run(t, "llama-server.sh", "LLAMA_SERVER="+dir+"/absent")
	if err == nil || out != "" || !strings.Contains(progress, "is no executable file; correct it or unset it") {
		t.Errorf("a wrong LLAMA_SERVER printed %q and %q, %v", out, progress, err)
	}
}

// Two processes fill one empty cache in which a killed one left half an entry.
func TestModelCacheIsFilledOnceAndWhole(t *testing.T) {
	filled := filepath.Dir(filepath.Dir(SmolLM2(t)))
	home := t.TempDir()
	cache := filepath.Join(home, "interlock-dev")
	half := filepath.Join(cache, ".part-model-killed")
	if err := os.MkdirAll(half, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(half, "SmolLM2-135M-Instruct.Q4_1.gguf"), []byte("GGUF half"), 0o600); err != nil {
		t.Fatal(err)
	}
	downloads := filepath.Join(filled, "dl")
	if err := os.MkdirAll(downloads, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(downloads, filepath.Join(cache, "dl")); err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	var printed [2]string
	for i := range printed {
		both.Go(func() {
			out, progress, err := run(t, "model.sh", "XDG_CACHE_HOME="+home)
			if err != nil {
				t.Errorf("%v\n%s", err, progress)
			}
			printed[i] = strings.TrimSpace(out)
		})
	}
	both.Wait()
	if printed[0] != printed[1] || !strings.HasPrefix(printed[0], cache) {
		t.Errorf("printed %q and %q, want one path in the cache", printed[0], printed[1])
	}
	if st, err := os.Stat(printed[0]); err != nil || st.Size() != 98362432 {
		t.Errorf("the model: %v, %v; want 98362432 bytes", st, err)
	}
	entries, err := filepath.Glob(filepath.Join(cache, ".part-*"))
	if err != nil || len(entries) != 0 {
		t.Errorf("unfinished folders stayed: %v, %v", entries, err)
	}
}
