package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"interlock.sh/agent/mainthread"
	"interlock.sh/internal/atomicfile"
)

// A program that replaces itself by exec keeps its process: pid, start time, main thread, open files and
// children are the same before and after. So the children of the old image are the children of the new
// one, and their leash still holds; what exec loses is what the program knew of them. HandOver writes that
// down and execs, TakeOver reads it, and a child that is added and started under the same name with the
// same command takes the process over instead of starting one.
//
// Killed at any moment between, the process is gone, so the leash ends the children and the record on disk
// names an agent that no longer runs: the next one starts from nothing.

// handOverName is the record in the supervisor's folder. It holds keys, as the key files beside it do, and
// has their mode.
const handOverName = "handover.json"

const handOverVersion = 1

// handOverFile is the form of the record.
type handOverFile struct {
	Version  int                  `json:"version"`
	Agent    Identity             `json:"agent"` // the process that goes on; any other has no use for it
	Children []handed             `json:"children"`
	Files    map[string]inherited `json:"files,omitempty"`
	Note     json.RawMessage      `json:"note,omitempty"`
}

// handed is one child that goes on.
type handed struct {
	record
	Key     string     `json:"key"`
	KeyFile string     `json:"keyFile"`
	Command string     `json:"command"` // fingerprint
	Output  inherited  `json:"output"`
	Pipe    string     `json:"pipe,omitempty"`
	Tether  *inherited `json:"tether,omitempty"`
	Starts  int        `json:"starts"`
	Tail    []string   `json:"tail"`
	Begun   string     `json:"begun"`
}

// HandOver is what the next image of the program is given.
type HandOver struct {
	Program string              // path of the next image
	Args    []string            // its arguments, the program's name first
	Env     []string            // its environment
	Files   map[string]*os.File // stay open for it, by name
	Note    any                 // of the caller to the caller, as JSON
}

// frozen is a child that stands still: nobody starts, ends or reads it.
type frozen struct {
	handed
	proc *process // nil for one that was inherited and is not taken over yet
	out  *output
}

// HandOver replaces this program by another image in the same process, with every child that runs. It
// returns only when that failed; then everything goes on as before.
func (s *Supervisor) HandOver(h HandOver) error {
	s.mu.Lock() // nobody comes or goes meanwhile
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("hand over: the supervisor is closed")
	}
	thaw := make(chan struct{})
	defer close(thaw)
	var all []frozen
	for _, c := range s.children {
		if f, ok := c.freeze(thaw); ok {
			all = append(all, f)
		}
	}
	s.step("frozen")
	all = append(all, s.unclaimed()...)
	for i := range all {
		all[i].hush()
		defer all[i].speak()
	}
	path := filepath.Join(s.dir, handOverName)
	files, err := s.writeHandOver(path, h, all)
	defer os.Remove(path) //nolint:errcheck // a record of a process that did not change is read by nobody
	if err != nil {
		return fmt.Errorf("hand over: %w", err)
	}
	s.step("written")
	// Pdeathsig follows the thread that forked the children: that very thread must survive.
	mainthread.Do(func() { err = s.exec(h, files) })
	return fmt.Errorf("hand over to %s: %w", h.Program, err)
}

// exec replaces the program. No child may be forked while the files are open to it.
func (s *Supervisor) exec(h HandOver, files []inherited) error {
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	defer func() {
		for _, in := range files {
			_ = in.keepOverExec(false)
		}
	}()
	for _, in := range files {
		if err := in.keepOverExec(true); err != nil {
			return err
		}
	}
	s.step("exec")
	return syscall.Exec(h.Program, h.Args, h.Env)
}

// hush leaves what the child writes from now on in its pipe, and keeps what it wrote before.
func (f *frozen) hush() {
	if f.proc != nil {
		f.proc.stopCopying()
		f.Tail, f.Begun = f.out.tail(tailLines), f.out.begun()
	}
}

// speak ends hush, and gives the files back.
func (f *frozen) speak() {
	if f.proc != nil {
		_ = f.proc.output.SetReadDeadline(time.Time{}) // a closed pipe says so when it is read
		f.proc.copyTo(f.out)
		f.proc.files.Unlock()
	}
}

// freeze makes the child's owner stand still until thaw closes, and describes what runs; false when
// nothing does that could go on.
func (c *Child) freeze(thaw <-chan struct{}) (frozen, bool) {
	type answer struct {
		f  frozen
		ok bool
	}
	held := make(chan answer, 1)
	c.tell(func(o *owner) {
		f, ok := o.describe()
		held <- answer{f, ok}
		<-thaw
	})
	select {
	case a := <-held:
		return a.f, a.ok
	case <-c.done:
		return frozen{}, false
	}
}

// describe is the child's process as the next image must know it, with a hold on its files: one that ends
// meanwhile closes none of them, so that no number comes to mean another file. One that ends, or is ended,
// does not go on: the next image's Sweep sees to it.
func (o *owner) describe() (frozen, bool) {
	switch o.m.state {
	case Loading, Probing, Ready, Unhealthy:
	default:
		return frozen{}, false
	}
	p := o.proc
	p.files.Lock()
	out, err := describe(p.output)
	if err != nil { // it has ended
		p.files.Unlock()
		return frozen{}, false
	}
	h := handed{
		record: record{Name: o.name, Identity: p.Identity, Port: p.at.Port, Leash: o.sup.leash},
		Key:    p.at.Key, KeyFile: p.at.KeyFile, Command: p.command, Output: out, Starts: o.starts, Pipe: p.tether.path,
	}
	if p.tether.file != nil {
		in, err := describe(p.tether.file)
		if err != nil {
			p.files.Unlock()
			return frozen{}, false
		}
		h.Tether = &in
	}
	return frozen{handed: h, proc: p, out: o.out}, true
}

// writeHandOver writes the record and returns every file that must stay open.
func (s *Supervisor) writeHandOver(path string, h HandOver, all []frozen) ([]inherited, error) {
	me, err := Self()
	if err != nil {
		return nil, err
	}
	doc := handOverFile{Version: handOverVersion, Agent: me, Children: []handed{}, Files: map[string]inherited{}}
	if doc.Note, err = json.Marshal(h.Note); err != nil {
		return nil, err
	}
	var files []inherited
	for _, f := range all {
		doc.Children = append(doc.Children, f.handed)
		files = append(files, f.Output)
		if f.Tether != nil {
			files = append(files, *f.Tether)
		}
	}
	for name, f := range h.Files {
		in, err := describe(f)
		if err != nil {
			return nil, fmt.Errorf("describe the %s: %w", name, err)
		}
		doc.Files[name] = in
		files = append(files, in)
	}
	b, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return files, atomicfile.Write(path, b, 0o600)
}
