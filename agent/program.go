package agent

import (
	"context"
	"os"
	"strconv"
	"time"

	"interlock.sh/fleet"
	"interlock.sh/internal/retry"
	"interlock.sh/llama"
)

// programEvery is how often the model server program is looked for, or at.
const programEvery = time.Minute

// serverLoop keeps what is known of the model server program up to date. It is a loop of its own: a
// program that hangs must not hold up the heartbeats.
func (a *Agent) serverLoop(ctx context.Context) error {
	if a.supported() != nil {
		return nil
	}
	var seen os.FileInfo // the program that was asked
	for {
		if !a.sameServer(seen) {
			seen = a.lookAtServer(ctx)
		}
		if retry.Sleep(ctx, a.clock, programEvery) != nil {
			return nil
		}
	}
}

// sameServer says whether the program is the one that was asked before: asking it starts it three times.
func (a *Agent) sameServer(seen os.FileInfo) bool {
	a.mu.Lock()
	facts := a.server
	a.mu.Unlock()
	if facts == nil || seen == nil {
		return false
	}
	now, err := os.Stat(facts.Path)
	return err == nil && os.SameFile(seen, now) && seen.ModTime().Equal(now.ModTime()) && seen.Size() == now.Size()
}

// lookAtServer finds the model server program and what it says of itself.
func (a *Agent) lookAtServer(ctx context.Context) os.FileInfo {
	var facts *fleet.ServerFacts
	var seen os.FileInfo
	bin, err := llama.Find(ctx, a.host.setting)
	if err == nil {
		facts = &fleet.ServerFacts{Path: bin.Path, Version: bin.Version, Devices: bin.GPUs}
		if bin.Build > 0 {
			facts.Build = "b" + strconv.Itoa(bin.Build)
		}
		seen, _ = os.Stat(bin.Path) // nil: it is asked again
	}
	a.mu.Lock()
	changed := (facts == nil) != (a.server == nil) || facts != nil && facts.Path+facts.Version != a.server.Path+a.server.Version
	a.server = facts
	a.cpuOnly = err == nil && bin.CPUOnly()
	a.mu.Unlock()
	if changed {
		signal(a.news)
	}
	return seen
}
