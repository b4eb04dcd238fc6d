package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Inheritance is what the former image of this very process left.
type Inheritance struct {
	// Note is the former image's own.
	Note json.RawMessage

	files    map[string]*os.File
	children map[string]*heir
}

// heir is a child that waits for being taken over.
type heir struct {
	handed
	output *os.File
	tether tether
}

// TakeOver reads what the former image of this very process left in the supervisor's folder, and takes
// the open files. It is nil when there is nothing: the record of another process, one that ended before
// its next image had come so far, means nothing here. Call it before anything is started: what was left
// must not be handed on.
func TakeOver(dir string) (*Inheritance, error) {
	path := filepath.Join(dir, handOverName)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("take over: %w", err)
	}
	if err := os.Remove(path); err != nil { // it holds keys, and counts once
		return nil, fmt.Errorf("take over: %w", err)
	}
	me, err := Self()
	if err != nil {
		return nil, fmt.Errorf("take over: %w", err)
	}
	var doc handOverFile
	if err := json.Unmarshal(b, &doc); err != nil || doc.Agent != me {
		return nil, nil //nolint:nilerr // half a record is nobody's: Sweep ends what the table of children names
	}
	in := &Inheritance{Note: doc.Note, files: map[string]*os.File{}, children: map[string]*heir{}}
	for name, f := range doc.Files {
		if in.files[name], err = f.open(name); err != nil {
			delete(in.files, name)
		}
	}
	for _, h := range doc.Children {
		if one, ok := h.take(); ok && doc.Version == handOverVersion {
			in.children[h.Name] = one
		}
	}
	return in, nil
}

// take opens the files of a child. False when they are not what was left; Sweep ends such a child.
func (h handed) take() (*heir, bool) {
	one := &heir{handed: h}
	if err := unix.SetNonblock(h.Output.FD, true); err != nil { // so that reading it can be broken off
		return nil, false
	}
	var err error
	if one.output, err = h.Output.open("output of " + h.Name); err != nil {
		return nil, false
	}
	if h.Tether != nil {
		f, err := h.Tether.open("leash of " + h.Name)
		if err != nil {
			_ = one.output.Close()
			return nil, false
		}
		one.tether = tether{path: h.Pipe, file: f}
	}
	return one, true
}

// File is an open file that the former image left under that name; nil when it left none.
func (in *Inheritance) File(name string) *os.File {
	if in == nil {
		return nil
	}
	return in.files[name]
}

// Inherited are the names of the children that the former image left and that nobody has taken over.
func (s *Supervisor) Inherited() []string {
	s.heirsMu.Lock()
	defer s.heirsMu.Unlock()
	return slices.Sorted(maps.Keys(s.heirs))
}

// inherits says whether that process was inherited and is not taken over.
func (s *Supervisor) inherits(id Identity) bool {
	s.heirsMu.Lock()
	defer s.heirsMu.Unlock()
	for _, h := range s.heirs {
		if h.Identity == id {
			return true
		}
	}
	return false
}

// Fits says whether an inherited child of that name runs what the driver would start.
func (s *Supervisor) Fits(name string, d Driver) bool {
	s.heirsMu.Lock()
	defer s.heirsMu.Unlock()
	h := s.heirs[name]
	return h != nil && h.running() && h.fits(s, d)
}

func (h *heir) fits(s *Supervisor, d Driver) bool {
	want, err := d.Command(h.endpoint())
	return err == nil && h.Leash == s.leash && want.fingerprint() == h.Command
}

func (h *heir) endpoint() Endpoint { return Endpoint{Port: h.Port, Key: h.Key, KeyFile: h.KeyFile} }

// Drop ends an inherited child that nobody is to take over; one that is not there, or was taken over, is
// left alone.
func (s *Supervisor) Drop(ctx context.Context, name string) error {
	if !slices.Contains(s.Inherited(), name) {
		return nil
	}
	// It is taken over by a driver that wants nothing, which a child ends like any other.
	c, err := s.Add(name, unwanted{})
	if err != nil {
		return fmt.Errorf("drop: %w", err)
	}
	c.Start()
	return s.Remove(ctx, name)
}

// dropAll ends all that is inherited and not taken over, at the same time.
func (s *Supervisor) dropAll(ctx context.Context) error {
	names := s.Inherited()
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { errs[i] = s.Drop(ctx, name) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// claim gives the inherited child of that name, once.
func (s *Supervisor) claim(name string) *heir {
	s.heirsMu.Lock()
	defer s.heirsMu.Unlock()
	h := s.heirs[name]
	delete(s.heirs, name)
	return h
}

// unclaimed are the inherited children that nobody has taken over.
func (s *Supervisor) unclaimed() []frozen {
	s.heirsMu.Lock()
	defer s.heirsMu.Unlock()
	var all []frozen
	for _, h := range s.heirs {
		all = append(all, frozen{handed: h.handed})
	}
	return all
}

// adopt makes the inherited child's process c's own; nil when there is none that runs. fits is false when
// it is not what the driver would start: then it must be ended like any other that is replaced.
func (s *Supervisor) adopt(c *Child, d Driver) (p *process, starts int, fits bool) {
	h := s.claim(c.name)
	if h == nil {
		return nil, 0, false
	}
	proc, err := os.FindProcess(h.PID)
	if err != nil || !h.running() {
		reapNow(h.PID)
		_ = h.output.Close()
		h.tether.letGo()
		_ = os.Remove(h.KeyFile)
		if err := s.table.remove(h.Identity); err != nil {
			s.logger.Warn("model server", "name", c.name, "error", err)
		}
		return nil, 0, false
	}
	p = &process{
		Identity: h.Identity, at: h.endpoint(), driver: d, command: h.Command, proc: proc, tether: h.tether, output: h.output,
	}
	p.ctx, p.over = context.WithCancel(context.Background())
	c.out.resume(h.Tail, h.Begun)
	p.copyTo(c.out)
	return p, h.Starts, h.fits(s, d)
}

// reapNow reaps a child of ours that has ended, so that no dead entry of it stays; others are left alone.
func reapNow(pid int) {
	var status unix.WaitStatus
	_, _ = unix.Wait4(pid, &status, unix.WNOHANG, nil)
}

// unwanted is the driver of a child that is only there to be ended.
type unwanted struct{}

var errUnwanted = errors.New("nothing is wanted here")

// Command refuses, as everything that would start it or ask it does.
func (unwanted) Command(Endpoint) (Command, error)     { return Command{}, errUnwanted }
func (unwanted) Ready(context.Context, Endpoint) error { return errUnwanted }
func (unwanted) Alive(context.Context, Endpoint) error { return errUnwanted }
func (unwanted) CloseStreams(Endpoint)                 {}
func (unwanted) ParseError([]string) string            { return "" }
func (unwanted) LoadDeadline() time.Duration           { return time.Hour }
