// Package power measures what an owner's ceilings ask of a machine: whether it runs on mains power, and
// since when nobody used keyboard or mouse. What cannot be measured is absent; it decides nothing.
package power

import (
	"context"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"interlock.sh/fleet/schedule"
)

// deadline bounds one measurement: a bus or a tool that hangs must hold up nobody.
const deadline = 2 * time.Second

// Need says what is asked for; nothing else is measured.
type Need struct {
	Mains, Idle bool
}

// Meter measures again and again, each thing at most once at a time: one that hangs holds one thread, not one
// more at each look. The zero value is ready; it is safe for concurrent use.
type Meter struct {
	mains probe[bool]
	idle  probe[time.Duration]
}

// Read measures now.
func (m *Meter) Read(ctx context.Context, need Need) schedule.Facts {
	var f schedule.Facts
	if need.Mains {
		f.Mains = m.mains.bounded(ctx, mains)
	}
	if need.Idle {
		f.Idle = m.idle.bounded(ctx, idle)
	}
	return f
}

// probe is one thing that is measured.
type probe[T any] struct {
	mu  sync.Mutex
	out *measurement[T] // that has not ended; nil when none is out
}

type measurement[T any] struct {
	done  chan struct{}
	value *T // once done
}

// bounded gives up a measurement at the deadline, whatever it waits for. While one is out, its end is awaited
// instead of another one begun.
func (p *probe[T]) bounded(ctx context.Context, measure func(context.Context) *T) *T {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	p.mu.Lock()
	m := p.out
	if m == nil {
		m = &measurement[T]{done: make(chan struct{})}
		p.out = m
		go p.run(context.WithoutCancel(ctx), m, measure) // others may await it, too
	}
	p.mu.Unlock()
	select {
	case <-m.done:
		return m.value
	case <-ctx.Done():
		return nil
	}
}

func (p *probe[T]) run(ctx context.Context, m *measurement[T], measure func(context.Context) *T) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	m.value = measure(ctx)
	p.mu.Lock()
	p.out = nil
	p.mu.Unlock()
	close(m.done)
}

func mains(ctx context.Context) *bool {
	if runtime.GOOS == "darwin" {
		return parsePmset(output(ctx, "pmset", "-g", "ps"))
	}
	return supplies("/sys/class/power_supply")
}

func idle(ctx context.Context) *time.Duration {
	if runtime.GOOS == "darwin" {
		return parseIOReg(output(ctx, "ioreg", "-c", "IOHIDSystem", "-d", "4", "-w", "0"))
	}
	return seats(ctx, time.Now())
}

func output(ctx context.Context, name string, args ...string) string {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second // what it started may hold its output open after it was killed
	cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C"}
	b, err := cmd.Output()
	if err != nil {
		return ""
	}
	return string(b)
}
