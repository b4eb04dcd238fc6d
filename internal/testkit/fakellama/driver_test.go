package fakellama

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"interlock.sh/internal/testkit"
	"interlock.sh/llama"
)

// TestOurDriverTakesItForReal holds the fake to what the product asks of a llama-server.
func TestOurDriverTakesItForReal(t *testing.T) {
	bin, err := llama.Find(t.Context(), Install(t, Config{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := bin.Check(); err != nil {
		t.Fatal(err)
	}
	if bin.Build != 11434 || !bin.CPUOnly() {
		t.Errorf("described as %+v", bin)
	}
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := llama.Spec{
		Model: "/models/m.gguf", Alias: "m", Port: testkit.FreePort(t), APIKey: "sesame", APIKeyFile: key, ContextLength: 1024, Slots: 2, Threads: 1,
	}
	args, err := llama.Args(bin, spec)
	if err != nil {
		t.Fatal(err)
	}
	s := startWith(t, spec.Port, Config{}, args)
	s.await(200)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := llama.NewClient("http://"+net.JoinHostPort(llama.Host, strconv.Itoa(spec.Port)), "sesame")
	defer c.CloseStreams()
	if state, err := c.Health(ctx); state != llama.OK {
		t.Fatalf("health %v, %v", state, err)
	}
	props, err := c.Props(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := llama.VerifyProps(props, spec); err != nil {
		t.Error(err)
	}
	if err := c.Probe(ctx); err != nil {
		t.Error(err)
	}
	load, err := c.Load(ctx)
	if err != nil || load.Slots == nil || *load.Slots != 2 || load.Queued == nil || *load.Queued != 0 || load.Tokens == nil || *load.Tokens != 1 {
		t.Errorf("load %+v, %v", load, err)
	}
}
