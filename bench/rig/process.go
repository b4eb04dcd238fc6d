package rig

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// stopWithin is how long a program may take to end after SIGTERM.
const stopWithin = 30 * time.Second

// process is a program that runs until stop.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    *os.File
	exited chan struct{}
}

// start runs a program in a group of its own, with its log in dir. Lines of its standard output go to
// lines, which may be nil.
func start(dir, name, program string, args, env []string, lines func(string)) (*process, error) {
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, cmd: exec.Command(program, args...), log: log, exited: make(chan struct{})}
	p.cmd.Env, p.cmd.Stderr = env, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		_ = log.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.exited)
		p.copyLines(out, lines)
		_ = p.cmd.Wait() // how it ended does not matter; what it said is in its log
		_ = p.log.Close()
	}()
	return p, nil
}

func (p *process) copyLines(out io.Reader, lines func(string)) {
	sc := bufio.NewScanner(out)
	for sc.Scan() {
		if lines != nil {
			lines(sc.Text())
		}
	}
}

// stop ends the program, politely at first.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(stopWithin):
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.exited
	}
}

// run carries one command out and returns what it printed.
func run(ctx context.Context, program string, args, env []string, stdin io.Reader) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.Stdin = env, stdin
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", filepath.Base(program), args, err, out)
	}
	return nil
}
