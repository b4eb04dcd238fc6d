package supervise

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"interlock.sh/agent/mainthread"
	"interlock.sh/internal/atomicfile"
	"interlock.sh/internal/ident"
)

// drainWithin is how long output may still come after the group is dead: a process that left the group
// may hold the pipe for ever.
const drainWithin = time.Second

// process is one start of a child, from fork to reaping.
type process struct {
	Identity
	at      Endpoint
	driver  Driver
	command string // fingerprint of what was started
	proc    *os.Process
	tether  tether
	output  *os.File // our end of its stdout and stderr

	files sync.Mutex // held while its files are closed, and while they are handed over

	ctx  context.Context // ends with the process
	over context.CancelFunc

	mu     sync.Mutex
	copied chan struct{}    // closes when its output is no longer copied
	ended  *os.ProcessState // how it ended; nil until it is reaped, or when the system could not tell
	reaped bool
}

// exit is how a process ended.
type exit struct {
	reason    string
	portTaken bool // and somebody else listens where it should have
}

// launch starts a child's process: port, key, leash, output, record.
func (s *Supervisor) launch(c *Child, d Driver) (*process, error) {
	p := &process{driver: d}
	undo := []func(){}
	fail := func(doing string, err error) (*process, error) {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	var err error
	if p.at.Port, err = freePort(); err != nil {
		return fail("choose a port", err)
	}
	p.at.Key, p.at.KeyFile = ident.Secret(""), filepath.Join(s.dir, c.file+".key")
	if err = atomicfile.Write(p.at.KeyFile, []byte(p.at.Key+"\n"), 0o600); err != nil {
		return fail("write the key", err)
	}
	undo = append(undo, func() { _ = os.Remove(p.at.KeyFile) })
	want, err := d.Command(p.at)
	if err != nil {
		return fail("make the command", err)
	}
	p.command = want.fingerprint()
	cmd := exec.Command(want.Path, want.Args...)
	if s.leash == LeashPipe {
		if p.tether, err = newTether(filepath.Join(s.dir, c.file+".pipe")); err != nil {
			return fail("leash", err)
		}
		undo = append(undo, p.tether.letGo)
		cmd = shimmed(s.shim, p.tether.path, s.grace, want)
	}
	cmd.Env = append(scrub(s.environ), want.Env...)
	cmd.SysProcAttr = attributes(s.leash)
	ours, theirs, err := os.Pipe()
	if err != nil {
		return fail("make the output pipe", err)
	}
	p.output, cmd.Stdout, cmd.Stderr = ours, theirs, theirs
	c.out.begin(want.Path)
	mainthread.Do(func() { err = cmd.Start() })
	_ = theirs.Close()
	if err != nil {
		_ = ours.Close()
		return fail("start", err)
	}
	p.proc = cmd.Process
	p.copyTo(c.out)
	p.ctx, p.over = context.WithCancel(context.Background())
	if p.Identity, err = identify(p.proc.Pid); errors.Is(err, os.ErrProcessDone) {
		p.Identity, err = Identity{PID: p.proc.Pid}, nil // it ended already; there is nothing to record
	} else if err == nil {
		err = s.table.put(record{Name: c.name, Identity: p.Identity, Port: p.at.Port, Leash: s.leash})
	}
	if err != nil { // a process that nobody could find again must not run
		p.signal(syscall.SIGKILL)
		p.reap()
		return fail("record", err)
	}
	return p, nil
}

// freePort is a port that was free on the loopback address a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp4", net.JoinHostPort(Host, "0"))
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// taken reports whether somebody listens on the port.
func taken(port int) bool {
	l, err := net.Listen("tcp4", Endpoint{Port: port}.Addr())
	if err != nil {
		return errors.Is(err, syscall.EADDRINUSE)
	}
	_ = l.Close()
	return false
}

// signal sends to the process's group, and to nobody once the process is reaped: its number may then
// be another's.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.proc.Pid, sig)
	}
}

// copyTo begins to copy its output.
func (p *process) copyTo(out *output) {
	copied := make(chan struct{})
	p.mu.Lock()
	p.copied = copied
	p.mu.Unlock()
	go func() { defer close(copied); out.copyFrom(p.output) }()
}

// stopCopying returns once nothing is copied any more. What the process writes from then on waits in the
// pipe.
func (p *process) stopCopying() {
	p.mu.Lock()
	copied := p.copied
	p.mu.Unlock()
	if err := p.output.SetReadDeadline(longAgo); err == nil { // a closed one is copied no more
		<-copied
	}
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// reap waits for the end of the process, ends the rest of its group, and frees what the start took.
func (p *process) reap() {
	var state *os.ProcessState
	if awaitEnd(p.proc.Pid) {
		p.signal(syscall.SIGKILL) // what it started and left
	} else {
		state, _ = p.proc.Wait()
	}
	p.mu.Lock()
	if state == nil {
		state, _ = p.proc.Wait()
	}
	p.ended, p.reaped = state, true
	p.mu.Unlock()
	p.over()
	p.files.Lock()
	defer p.files.Unlock()
	p.mu.Lock()
	copied := p.copied
	p.mu.Unlock()
	p.tether.letGo()
	_ = os.Remove(p.at.KeyFile)
	select {
	case <-copied:
	case <-time.After(drainWithin):
	}
	_ = p.output.Close() // ends the copying, if it has not ended
	<-copied
}

// exit says how a reaped process ended, in its own words where it left some.
func (p *process) exit(tail []string) exit {
	text := strings.TrimSpace(p.driver.ParseError(tail))
	for i := len(tail) - 1; i >= 0 && text == ""; i-- {
		text = strings.TrimSpace(tail[i])
	}
	how := "ended by itself without an error"
	p.mu.Lock()
	state := p.ended
	p.mu.Unlock()
	if state == nil {
		how = "ended, and the system did not say how"
	} else if code := exitCode(state); code > 128 {
		how = fmt.Sprintf("ended by signal %d (%s)", code-128, syscall.Signal(code-128))
	} else if code != 0 {
		how = fmt.Sprintf("ended with exit status %d", code)
	}
	if text != "" {
		how += ": " + text
	}
	return exit{reason: how, portTaken: taken(p.at.Port)}
}
