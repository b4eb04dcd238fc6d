package supervise

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/retry"
)

// Config is what a Supervisor needs. Only Dir is always needed.
type Config struct {
	Dir     string   // 0700, made when missing: the table of children, keys, leashes
	LogDir  string   // where children's output goes; Dir when empty
	Leash   Leash    // SystemLeash when empty
	Shim    []string // how to come to RunChild, for LeashPipe: this program's path and "run-child"
	Environ []string // the agent's environment, scrubbed before a child sees it; os.Environ() when nil
	Policy  Policy
	Clock   clock.Clock  // clock.System when nil
	Logger  *slog.Logger // slog's default when nil

	Inherited *Inheritance // of TakeOver in Dir; may be nil

	step func(string) // is told each step of a hand-over; for tests
}

// Supervisor has the children of one agent.
type Supervisor struct {
	dir, logDir string
	leash       Leash
	shim        []string
	grace       time.Duration
	environ     []string
	policy      Policy
	clock       clock.Clock
	logger      *slog.Logger
	table       *table
	step        func(string)

	heirsMu sync.Mutex // never held while waiting for a child
	heirs   map[string]*heir

	mu       sync.Mutex
	children map[string]*Child
	closed   bool
}

// New opens the table of children in the folder. It starts and signals nothing; call Sweep first. What was
// inherited waits for a child of its name to be added and started, or for Drop.
func New(cfg Config) (*Supervisor, error) {
	s := &Supervisor{
		dir: cfg.Dir, logDir: cfg.LogDir, leash: cfg.Leash, shim: cfg.Shim, grace: rejoinGrace, environ: cfg.Environ,
		policy: cfg.Policy.WithDefaults(), clock: cfg.Clock, logger: cfg.Logger, children: map[string]*Child{},
		heirs: map[string]*heir{}, step: cfg.step,
	}
	if cfg.Inherited != nil {
		s.heirs = maps.Clone(cfg.Inherited.children)
	}
	if s.step == nil {
		s.step = func(string) {}
	}
	if s.logDir == "" {
		s.logDir = s.dir
	}
	if s.leash == "" {
		s.leash = SystemLeash
	}
	if s.environ == nil {
		s.environ = os.Environ()
	}
	if s.clock == nil {
		s.clock = clock.System
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	switch {
	case s.leash == LeashDeathsig && SystemLeash != LeashDeathsig:
		return nil, errors.New("make supervisor: this system's kernel has no parent-death signal, use LeashPipe")
	case s.leash == LeashPipe && len(s.shim) == 0:
		return nil, errors.New("make supervisor: LeashPipe needs Shim, the command that comes to RunChild")
	}
	for _, dir := range []string{s.dir, s.logDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make supervisor: %w", err)
		}
	}
	var err error
	if s.table, err = openTable(filepath.Join(s.dir, "children.json")); err != nil {
		return nil, err
	}
	return s, nil
}

// Add makes a child of that name, stopped. The name is a label of one wanted server, unique here.
func (s *Supervisor) Add(name string, d Driver) (*Child, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fault.New(fault.Unavailable, "add %s: the agent is shutting down", name)
	}
	if s.children[name] != nil {
		return nil, fault.New(fault.Conflict, "add %s: a child of that name is there already", name)
	}
	hash := sha256.Sum256([]byte(name)) // names may hold anything; files are named by hash
	file := hex.EncodeToString(hash[:8])
	c := &Child{
		sup: s, name: name, file: file, out: newOutput(filepath.Join(s.logDir, file+".log"), logFileMax, s.clock),
		inbox: make(chan func(*owner)), quit: make(chan struct{}), done: make(chan struct{}),
		watchers: map[chan Status]bool{},
	}
	o := &owner{
		Child: c, driver: d,
		m: &machine{
			policy: s.policy, state: Stopped,
			backoff: retry.Backoff{Base: s.policy.BackoffBase, Cap: s.policy.BackoffCap},
		},
	}
	o.publish()
	go o.run()
	s.children[name] = c
	return c, nil
}

// Remove stops a child and forgets it. Its log files stay.
func (s *Supervisor) Remove(ctx context.Context, name string) error {
	s.mu.Lock()
	c := s.children[name]
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	if err := c.Stop(ctx); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	c.close()
	s.mu.Lock()
	delete(s.children, name)
	s.mu.Unlock()
	return nil
}

// Close stops all children at the same time, those that were inherited and not taken over before, and
// ends the supervisor. Each of the two takes no longer than Policy.StopBound.
func (s *Supervisor) Close(ctx context.Context) error {
	dropped := s.dropAll(ctx)
	s.mu.Lock()
	s.closed = true
	children := make([]*Child, 0, len(s.children))
	for _, c := range s.children {
		children = append(children, c)
	}
	s.mu.Unlock()
	errs := make([]error, len(children))
	var all sync.WaitGroup
	for i, c := range children {
		all.Go(func() {
			errs[i] = c.Stop(ctx)
			c.close()
		})
	}
	all.Wait()
	return errors.Join(append(errs, dropped)...)
}
