package agent

import (
	"context"
	"fmt"
	"math"

	"interlock.sh/agent/hostfacts"
	"interlock.sh/agent/memory"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/llama"
)

// outgrows refuses a model that this machine can never hold, before a byte of it is fetched: its files
// and the margin alone exceed all the memory there is. What of that is free, and what the context adds,
// is known once the header is there; reserve looks at it then.
func (s *serving) outgrows(ctx context.Context, bin llama.Binary) error {
	var weights int64
	for _, f := range s.want.Files {
		weights += f.Size
	}
	least := llama.Fit(llama.Header{}, weights, 0, 0, llama.F16, llama.F16).Total
	facts := s.facts(ctx)
	if facts.MemoryTotal == nil {
		return nil // reserve says so
	}
	has := *facts.MemoryTotal
	words := gib(has) + " of memory"
	if gpu := gpuMemory(facts, bin, func(g fleet.GPU) *int64 { return g.MemoryTotal }); gpu > 0 {
		has += gpu
		words += " and " + gib(gpu) + " on accelerators"
	}
	if least <= has {
		return nil
	}
	return fault.New(fault.Conflict, "memory: the model needs at least %s and this machine has %s; nothing was downloaded", gib(least), words).
		With("needs", least).With("has", has).
		WithHint("deploy a smaller model or quantization to this machine's group, or give it to a larger machine")
}

// reserve checks that weights, cache and margin fit beside everything else on the machine. A model that is
// there, since a former image of the agent loaded it, has its memory: that is only noted.
func (s *serving) reserve(ctx context.Context, bin llama.Binary, model llama.Model, p *memory.Promise, there bool) error {
	keys, values, err := llama.CacheTypes(s.want.Args)
	if err != nil {
		return err
	}
	need := llama.Fit(model.Header, model.WeightsBytes, s.want.ContextLength, s.want.Slots, keys, values)
	p.Bytes = need.Total
	if there {
		return s.host.ledger.Reserve(ctx, *p, memory.Free{Available: math.MaxInt64})
	}
	facts := s.facts(ctx)
	if facts.MemoryFree == nil || facts.MemoryTotal == nil {
		s.log.Warn("the machine's memory cannot be read: the model is started unchecked")
		return nil
	}
	return s.host.ledger.Reserve(ctx, *p, memory.Free{
		Total: *facts.MemoryTotal, Available: *facts.MemoryFree,
		GPU: gpuMemory(facts, bin, func(g fleet.GPU) *int64 { return g.MemoryFree }),
	})
}

// facts are the machine's memory and accelerators now.
func (s *serving) facts(ctx context.Context) fleet.HostFacts {
	var facts fleet.HostFacts
	hostfacts.Refresh(ctx, &facts, string(s.host.home))
	return facts
}

// gpuMemory adds up what is known of the accelerators that the program can use.
func gpuMemory(facts fleet.HostFacts, bin llama.Binary, of func(fleet.GPU) *int64) int64 {
	var sum int64
	if bin.CPUOnly() {
		return 0
	}
	for _, g := range facts.GPUs {
		if n := of(g); n != nil {
			sum += *n
		}
	}
	return sum
}

func gib(n int64) string { return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30)) }
