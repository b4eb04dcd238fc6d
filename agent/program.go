package agent

import (
	"context"
	"os"
	"strconv"
	"sync"
	"time"

	"interlock.sh/fleet"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/retry"
	"interlock.sh/llama"
)

const (
	programEvery = time.Minute      // between two looks at the model server program
	programFresh = 10 * time.Minute // what it said is believed so long, while its file is the same
)

// program is the model server program of this machine. Asking it about itself starts it three times, and
// may wake an accelerator: what it said is kept for all that want to know.
type program struct {
	setting string // the role's LLAMA_SERVER
	clock   clock.Clock

	mu    sync.Mutex
	bin   llama.Binary
	seen  os.FileInfo // its file when it was asked; nil when there was none
	asked time.Time
}

// find is the program and what it says of itself.
func (p *program) find(ctx context.Context) (llama.Binary, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen != nil && p.clock.Now().Sub(p.asked) < programFresh && p.same() {
		return p.bin, nil
	}
	p.seen = nil
	bin, err := llama.Find(ctx, p.setting)
	if err != nil {
		return bin, err
	}
	if seen, err := os.Stat(bin.Path); err == nil {
		p.bin, p.seen, p.asked = bin, seen, p.clock.Now()
	}
	return bin, nil
}

func (p *program) same() bool {
	now, err := os.Stat(p.bin.Path)
	return err == nil && os.SameFile(p.seen, now) && p.seen.ModTime().Equal(now.ModTime()) && p.seen.Size() == now.Size()
}

// programLoop keeps what is reported of the program up to date. It is a loop of its own: a program that
// hangs must not hold up the heartbeats.
func (a *Agent) programLoop(ctx context.Context) error {
	if a.supported() != nil {
		return nil
	}
	for {
		a.lookAtProgram(ctx)
		if retry.Sleep(ctx, a.clock, programEvery) != nil {
			return nil
		}
	}
}

func (a *Agent) lookAtProgram(ctx context.Context) {
	var facts *fleet.ServerFacts
	bin, err := a.host.program.find(ctx)
	if err == nil {
		facts = &fleet.ServerFacts{Path: bin.Path, Version: bin.Version, Devices: bin.GPUs}
		if bin.Build > 0 {
			facts.Build = "b" + strconv.Itoa(bin.Build)
		}
	}
	a.mu.Lock()
	changed := (facts == nil) != (a.server == nil) || facts != nil && facts.Path+facts.Version != a.server.Path+a.server.Version
	a.server, a.cpuOnly = facts, err == nil && bin.CPUOnly()
	a.mu.Unlock()
	if changed {
		signal(a.news)
	}
}
