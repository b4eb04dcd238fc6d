// Command llamaprobe says whether a llama-server computes on this processor: llamaprobe PATH starts it
// on a tiny model and asks for one token. A build for another processor dies of an illegal instruction
// only then; its --version still answers.
//
// Exit 0: it does. Exit 1: it ended by itself, and standard error says how. Exit 2: anything else.
package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"interlock.sh/internal/ident"
	"interlock.sh/internal/testkit/gguftiny"
	"interlock.sh/llama"
)

// deadline is generous: the machine may be compiling meanwhile, and a slow answer is an answer.
const deadline = 60 * time.Second

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: llamaprobe PATH")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	code, err := probe(ctx, os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func probe(ctx context.Context, path string) (code int, err error) {
	dir, err := os.MkdirTemp("", "llamaprobe-")
	if err != nil {
		return 2, err
	}
	defer os.RemoveAll(dir)
	spec, err := prepare(dir)
	if err != nil {
		return 2, err
	}
	bin, err := llama.Find(ctx, path)
	if err != nil {
		return 1, err
	}
	args, err := llama.Args(bin, spec)
	if err != nil {
		return 2, err
	}
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, bin.Path, args...)
	cmd.Env = llama.Env(bin, spec, os.Environ())
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	answered := make(chan error, 1)
	go func() { answered <- ask(ctx, spec) }()
	select {
	case err := <-answered:
		_ = cmd.Process.Kill() // it may have ended in the same moment
		died := <-ended
		if err == nil {
			return 0, nil
		}
		if ctx.Err() != nil {
			return 2, fmt.Errorf("%s gave no token within %s: %w", path, deadline, err)
		}
		return 1, fmt.Errorf("%s gave no token: %w (%w)", path, err, died)
	case err := <-ended:
		why := llama.ParseStartError(strings.Split(log.String(), "\n"))
		return 1, fmt.Errorf("%s ended before it gave a token: %w: %s", path, err, why)
	}
}

// prepare writes the model and the key and chooses a free port.
func prepare(dir string) (llama.Spec, error) {
	model := filepath.Join(dir, "tiny.gguf")
	if _, err := gguftiny.Write(model, 1, gguftiny.Options{}); err != nil {
		return llama.Spec{}, err
	}
	l, err := net.Listen("tcp4", llama.Host+":0")
	if err != nil {
		return llama.Spec{}, fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return llama.Spec{}, fmt.Errorf("find a free port: %w", err)
	}
	spec := llama.Spec{
		Model: model, Alias: "tiny", Port: port, ContextLength: 256, Slots: 1, Threads: 1,
		APIKey: ident.Secret("probe_"), APIKeyFile: filepath.Join(dir, "key"),
	}
	return spec, os.WriteFile(spec.APIKeyFile, []byte(spec.APIKey+"\n"), 0o600)
}

// ask waits for the server and has it compute a token.
func ask(ctx context.Context, spec llama.Spec) error {
	c := llama.NewClient("http://"+net.JoinHostPort(llama.Host, strconv.Itoa(spec.Port)), spec.APIKey)
	for {
		state, err := c.Health(ctx)
		switch state {
		case llama.OK:
			return c.Probe(ctx)
		case llama.Refused, llama.Loading:
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
