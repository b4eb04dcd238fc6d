//go:build linux

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	platform = runtime.GOOS + "-" + runtime.GOARCH
	patience = 60 * time.Second // for what takes a moment on an idle machine
	lookPace = 20 * time.Millisecond
)

// until asks ok until it says nil, and fails with its last answer.
func until(t testing.TB, what string, ok func() error) {
	t.Helper()
	untilWithin(t, patience, what, ok)
}

func untilWithin(t testing.TB, within time.Duration, what string, ok func() error) {
	t.Helper()
	end := time.Now().Add(within)
	for {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v: %v", what, within, err)
		}
		<-time.After(lookPace)
	}
}

// process is a program that runs beside the test. It is gone when the test ends.
type process struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	out  *transcript
	done chan struct{} // closed when it ended
	err  error         // of Wait
}

// start runs a program in the background. Its environment is env alone.
func start(t testing.TB, name string, env []string, argv ...string) *process {
	t.Helper()
	p := newProcess(t, name, env, argv...)
	p.run()
	return p
}

func newProcess(t testing.TB, name string, env []string, argv ...string) *process {
	p := &process{t: t, name: name, cmd: exec.Command(argv[0], argv[1:]...), out: &transcript{}, done: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = env, p.out, p.out
	p.cmd.WaitDelay = 5 * time.Second // a child that it left behind does not hold its end up
	return p
}

func (p *process) run() {
	p.t.Helper()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatalf("start %s: %v", p.name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	p.t.Cleanup(func() {
		p.stop()
		if p.t.Failed() {
			p.t.Logf("output of %s:\n%s", p.name, p.out.tail(60))
		}
	})
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop asks the process to end as a service manager would, and kills it when it does not.
func (p *process) stop() {
	if !p.ended() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Errorf("%s did not end within %v of SIGTERM", p.name, patience)
		p.kill()
	}
}

// kill is kill -9; it returns when the process is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// transcript collects output that is read while it is written.
type transcript struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *transcript) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *transcript) tail(lines int) string {
	all := strings.Split(strings.TrimSpace(s.String()), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// after is what follows prefix on the first line that has it.
func (s *transcript) after(prefix string) (string, error) {
	for line := range strings.Lines(s.String()) {
		if _, rest, ok := strings.Cut(line, prefix); ok {
			return strings.TrimSpace(rest), nil
		}
	}
	return "", fmt.Errorf("no line says %q", prefix)
}

// running are the processes whose command line mentions text, but for this one.
func running(text string) map[int]string {
	found := map[int]string{}
	entries, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, e := range entries {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(e)))
		b, err := os.ReadFile(e)
		if line := strings.ReplaceAll(string(b), "\x00", " "); err == nil && pid != os.Getpid() && strings.Contains(line, text) {
			found[pid] = line
		}
	}
	return found
}

// tempDir is a folder with a short path, since unix sockets are made below it.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("clean up: %v", err)
		}
	})
	return dir
}

// none is nil when nothing runs.
func none(processes map[int]string) error {
	if len(processes) > 0 {
		return fmt.Errorf("still running: %v", processes)
	}
	return nil
}

// missing is nil when s has all of the texts.
func missing(s string, texts ...string) error {
	for _, text := range texts {
		if !strings.Contains(s, text) {
			return fmt.Errorf("%q is not in:\n%s", text, s)
		}
	}
	return nil
}
