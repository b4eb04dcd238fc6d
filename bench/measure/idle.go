package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"interlock.sh/bench/report"
	"interlock.sh/bench/rig"
)

// The bounds of an agent that has nothing to do.
const (
	maxIdleMemory = 40e6
	maxIdleCPU    = 0.002 // of a core
)

// scrapeEvery is how often Prometheus asks an exporter where nobody told it otherwise.
const scrapeEvery = 15 * time.Second

// Agent is one to watch, and how it is shown.
type Agent struct {
	What string
	Pid  int
}

// Idle watches agents that have nothing to do for a while, beside node_exporter, which is scraped.
func Idle(ctx context.Context, e *rig.Exporter, agents []Agent, length time.Duration) ([]report.Row, error) {
	seen := []*usage{{pid: e.Pid}}
	for _, a := range agents {
		seen = append(seen, &usage{pid: a.Pid})
	}
	began := time.Now()
	for first := true; ; first = false {
		if err := e.Scrape(ctx); err != nil {
			return nil, err
		}
		for _, u := range seen {
			if err := u.look(first); err != nil {
				return nil, err
			}
		}
		left := length - time.Since(began)
		if left <= 0 {
			break
		}
		select {
		case <-time.After(min(left, scrapeEvery)):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	took := time.Since(began)
	beside := seen[0]
	var rows []report.Row
	for i, a := range agents {
		u := seen[i+1]
		rows = append(rows, report.Row{
			What:     a.What + ": memory at most",
			Measured: fmt.Sprintf("%.1f MB (node_exporter %.1f MB)", u.memory/1e6, beside.memory/1e6),
			Bound:    fmt.Sprintf("≤ %.0f MB", maxIdleMemory/1e6), OK: u.memory <= maxIdleMemory,
		}, report.Row{
			What:     fmt.Sprintf("%s: processor over %v", a.What, took.Round(time.Second)),
			Measured: fmt.Sprintf("%.2f%% of a core (node_exporter %.2f%%)", 100*u.share(took), 100*beside.share(took)),
			Bound:    fmt.Sprintf("≤ %.1f%%", 100*maxIdleCPU), OK: u.share(took) <= maxIdleCPU,
		})
	}
	return rows, nil
}

// usage is what a process took.
type usage struct {
	pid         int
	first, last time.Duration
	memory      float64 // the most that was seen
}

// look reads what the process, and those that it ran and that ended, took so far.
func (u *usage) look(first bool) error {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", u.pid))
	if err != nil {
		return fmt.Errorf("read what process %d takes: %w", u.pid, err)
	}
	_, fields, _ := strings.Cut(string(b), ") ") // the name may hold blanks
	var ticks [4]int64                           // its own, user and system, and of its children
	if words := strings.Fields(fields); len(words) < 15 {
		return fmt.Errorf("read what process %d takes: %q", u.pid, b)
	} else if _, err := fmt.Sscan(strings.Join(words[11:15], " "), &ticks[0], &ticks[1], &ticks[2], &ticks[3]); err != nil {
		return fmt.Errorf("read what process %d takes: %w", u.pid, err)
	}
	u.last = time.Duration(ticks[0]+ticks[1]+ticks[2]+ticks[3]) * tick
	if first {
		u.first = u.last
	}
	rss, err := resident(u.pid)
	u.memory = max(u.memory, rss)
	return err
}

// tick is the unit of /proc/<pid>/stat on every Linux.
const tick = 10 * time.Millisecond

// share is the part of a core that it took.
func (u *usage) share(of time.Duration) float64 { return float64(u.last-u.first) / float64(of) }

// resident is the memory of a process in bytes.
func resident(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(b)) {
		var kb float64
		if _, err := fmt.Sscanf(line, "Rss: %f kB", &kb); err == nil {
			return kb * 1024, nil
		}
	}
	return 0, errors.New("the system does not tell the memory of a process")
}
