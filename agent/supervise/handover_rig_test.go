package supervise

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"interlock.sh/internal/testkit/fakellama"
)

// The environment by which a test tells the next image of the program what to be.
const (
	envStep   = "REPLACE_STEP"   // kill yourself at this step
	envReap   = "REPLACE_REAP"   // kill the child at this step
	envAnswer = "REPLACE_ANSWER" // what the model answers: another command
	envDrop   = "REPLACE_DROP"   // nothing is wanted any more
	envGate   = "GATE_LOAD"      // of all images: loading ends when this control says so

	envAnywhere = "FROM_ANY_THREAD" // of all images: not from the main thread
)

// word is what the replacing program says: after each start, and after each hand-over that failed.
type word struct {
	PID       int      `json:"pid"`
	Port      int      `json:"port"`
	Key       string   `json:"key"`
	Starts    int      `json:"starts"`
	Tail      int      `json:"tail"`
	Agent     int      `json:"agent"`
	Note      string   `json:"note"`
	Inherited []string `json:"inherited"`
	File      bool     `json:"file"` // the file that was left is there, and is the same
	Err       string   `json:"err"`
}

// agentToReplace supervises one child in a folder, and replaces itself for each line "PROGRAM NAME=value…"
// that it reads.
func agentToReplace(args []string) int {
	dir, leash := args[0], Leash(args[1])
	say := func(w word) { _ = json.NewEncoder(os.Stdout).Encode(w) }
	in, err := TakeOver(dir)
	if err != nil {
		say(word{Err: err.Error()})
		return 1
	}
	cfg := configIn(dir, leash, quick)
	cfg.Inherited = in
	var child *Child
	cfg.step = func(step string) {
		if step == os.Getenv(envStep) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		if step == os.Getenv(envReap) {
			_ = syscall.Kill(child.Status().PID, syscall.SIGKILL)
		}
	}
	cfg.step("taken")
	s, err := New(cfg)
	if err != nil {
		say(word{Err: err.Error()})
		return 1
	}
	told := word{Agent: os.Getpid(), Inherited: s.Inherited(), File: in.File("mine") != nil}
	if in != nil {
		_ = json.Unmarshal(in.Note, &told.Note)
	}
	if _, err := s.Sweep(context.Background()); err != nil {
		say(word{Err: err.Error()})
		return 1
	}
	drive := &fakeDriver{cfg: fakellama.Config{Spew: true, IgnoreTerm: true}}
	if a := os.Getenv(envAnswer); a != "" {
		drive.cfg.Tokens = []string{a}
	}
	if gate := os.Getenv(envGate); gate != "" {
		drive.cfg.Control, drive.cfg.GateLoad = gate, true
	}
	mine, err := os.Open(os.Args[0])
	if err != nil {
		say(word{Err: err.Error()})
		return 1
	}
	if os.Getenv(envDrop) != "" {
		if err := s.Drop(context.Background(), "tiny"); err != nil {
			told.Err = err.Error()
		}
		say(told)
	} else {
		if child, err = s.Add("tiny", drive); err != nil {
			say(word{Err: err.Error()})
			return 1
		}
		child.Start()
		if os.Getenv(envGate) != "" && in == nil {
			told.PID = child.Status().PID
			say(told) // it loads
		} else {
			told.sayReady(child, say)
		}
	}
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		fields := strings.Fields(commands.Text())
		env := append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "REPLACE_") }), fields[1:]...)
		for _, v := range fields[1:] { // steps of this image count as well
			name, value, _ := strings.Cut(v, "=")
			_ = os.Setenv(name, value)
		}
		told.Err = s.HandOver(HandOver{
			Program: fields[0], Args: append([]string{os.Args[0], replaceArg}, args...), Env: env,
			Files: map[string]*os.File{"mine": mine}, Note: fmt.Sprint("from ", told.Agent),
		}).Error()
		told.sayReady(child, say)
	}
	return 0
}

// sayReady tells of the child once it is ready.
func (w word) sayReady(c *Child, say func(word)) {
	for st := range c.Watch(context.Background()) {
		if st.State != Ready {
			continue
		}
		l, err := c.Acquire()
		if err != nil {
			continue
		}
		w.PID, w.Port, w.Key, w.Starts, w.Tail = st.PID, l.At.Port, l.At.Key, st.Starts, len(c.Tail(tailLines))
		l.Done(true)
		say(w)
		return
	}
}

// replacer is a running agentToReplace.
type replacer struct {
	testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	dir   string
	leash Leash
}

func startReplacer(t testing.TB, dir string, leash Leash) (*replacer, word) {
	t.Helper()
	r := &replacer{TB: t, cmd: exec.Command(os.Args[0], replaceArg, dir, string(leash)), dir: dir, leash: leash}
	r.cmd.Stderr = os.Stderr
	var err error
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.out = bufio.NewReader(out)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill(); _ = r.cmd.Wait() })
	return r, r.hear()
}

// hear is the next word; the program's end fails the test.
func (r *replacer) hear() word {
	r.Helper()
	w, ok := r.listen()
	if !ok {
		r.Fatal("the agent ended")
	}
	return w
}

func (r *replacer) listen() (word, bool) {
	line, err := r.out.ReadBytes('\n')
	if err != nil {
		return word{}, false
	}
	var w word
	if err := json.Unmarshal(line, &w); err != nil {
		r.Fatalf("the agent says %q: %v", line, err)
	}
	return w, true
}

// replace has the program replace itself.
func (r *replacer) replace(program string, env ...string) {
	r.Helper()
	if _, err := fmt.Fprintln(r.in, strings.Join(append([]string{program}, env...), " ")); err != nil {
		r.Fatal(err)
	}
}

// answers asks the model that a word tells of.
func (r *replacer) answers(w word) error {
	code, body, err := request(r.Context(), "POST", Endpoint{Port: w.Port}, "/v1/chat/completions", w.Key, `{"messages":[{"role":"user","content":"hi"}]}`)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%d: %s", code, body)
	}
	return err
}
