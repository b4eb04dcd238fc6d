package awake

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// takeSystem takes the lock in the way of this system.
func takeSystem(ctx context.Context) (Lock, error) {
	if runtime.GOOS == "darwin" {
		return takeProgram(ctx, "caffeinate", "-i")
	}
	lock, err := takeLogind(ctx)
	if err == nil || isDenied(err) {
		return lock, err
	}
	lock, errProgram := takeProgram(ctx, "systemd-inhibit", "--what=sleep", "--mode=block", "--who="+who, "--why="+why)
	if errProgram != nil {
		return Lock{}, fmt.Errorf("%w; %w", err, errProgram)
	}
	return lock, nil
}

// held is what runs under a program that holds the lock: it says so, and lives until its input ends,
// which it also does when this process is killed.
const held = "echo held; exec cat"

// takeProgram takes the lock by a program that holds it while another runs.
func takeProgram(ctx context.Context, name string, args ...string) (Lock, error) {
	cmd := exec.Command(name, append(args, "sh", "-c", held)...)
	cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C"}
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		return Lock{}, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return Lock{}, err
	}
	if err := cmd.Start(); err != nil {
		return Lock{}, fmt.Errorf("start %s: %w", name, err)
	}
	first, ended := make(chan string, 1), make(chan struct{})
	var exit error // after ended
	go func() {
		lines := bufio.NewScanner(out)
		lines.Scan()
		first <- lines.Text()
		for lines.Scan() { // until it ends
		}
		exit = cmd.Wait()
		close(ended)
	}()
	end := sync.OnceFunc(func() {
		_ = in.Close() // the lock ends with what reads this
		select {
		case <-ended:
		case <-time.After(time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	select {
	case line := <-first:
		if line == "held" {
			return Lock{Release: end, Lost: ended}, nil
		}
	case <-ctx.Done():
		end()
		return Lock{}, fmt.Errorf("%s does not answer: %w", name, context.Cause(ctx))
	}
	end()
	words, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
	if words == "" && exit != nil {
		words = exit.Error()
	}
	return Lock{}, fmt.Errorf("%s: %s", name, words)
}
