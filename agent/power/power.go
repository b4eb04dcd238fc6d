// Package power measures what an owner's ceilings ask of a machine: whether it runs on mains power, and
// since when nobody used keyboard or mouse. What cannot be measured is absent; it decides nothing.
package power

import (
	"context"
	"os/exec"
	"runtime"
	"time"

	"interlock.sh/fleet/schedule"
)

// deadline bounds one measurement: a bus or a tool that hangs must hold up nobody.
const deadline = 2 * time.Second

// Need says what is asked for; nothing else is measured.
type Need struct {
	Mains, Idle bool
}

// Read measures now.
func Read(ctx context.Context, need Need) schedule.Facts {
	var f schedule.Facts
	if need.Mains {
		f.Mains = bounded(ctx, mains)
	}
	if need.Idle {
		f.Idle = bounded(ctx, idle)
	}
	return f
}

// bounded gives up a measurement at the deadline, whatever it waits for.
func bounded[T any](ctx context.Context, measure func(context.Context) *T) *T {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	got := make(chan *T, 1)
	go func() { got <- measure(ctx) }()
	select {
	case v := <-got:
		return v
	case <-ctx.Done():
		return nil
	}
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
