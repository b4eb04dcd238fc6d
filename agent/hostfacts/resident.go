package hostfacts

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"interlock.sh/internal/clock"
)

// residentEvery is how old the memory of a process may be: to find its children can mean to look at every
// process of the machine.
const residentEvery = 5 * time.Second

// Resident measures the memory of one process with its children. It is safe for concurrent use.
type Resident struct {
	clock clock.Clock

	mu    sync.Mutex
	pid   int
	at    time.Time
	bytes *int64
}

// NewResident measures on a clock.
func NewResident(c clock.Clock) *Resident { return &Resident{clock: c} }

// Of is the memory of a process as it was at most 5 s ago; nil when it cannot be read. Nobody may change
// what that points at.
func (r *Resident) Of(ctx context.Context, pid int) *int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	if age := now.Sub(r.at); pid != r.pid || r.bytes == nil || age < 0 || age >= residentEvery {
		r.pid, r.at, r.bytes = pid, now, resident(ctx, pid)
	}
	return r.bytes
}

// resident is the memory of a process with its children now.
func resident(ctx context.Context, pid int) *int64 {
	p, err := process.NewProcessWithContext(ctx, int32(pid))
	if err != nil {
		return nil
	}
	info, err := p.MemoryInfoWithContext(ctx)
	if err != nil {
		return nil
	}
	rss := int64(info.RSS)
	for _, child := range children(ctx, p) {
		if more := resident(ctx, child); more != nil {
			rss += *more
		}
	}
	return &rss
}

// children are those of all threads of a process. Where the kernel keeps no list of them, every process of
// the machine is asked for its parent.
func children(ctx context.Context, p *process.Process) (pids []int) {
	lists, _ := filepath.Glob("/proc/" + strconv.Itoa(int(p.Pid)) + "/task/[0-9]*/children") // none elsewhere
	for _, list := range lists {
		b, err := os.ReadFile(list)
		if err != nil {
			continue // that thread ended
		}
		for word := range strings.FieldsSeq(string(b)) {
			if pid, err := strconv.Atoi(word); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	if len(lists) > 0 {
		return pids
	}
	all, _ := p.ChildrenWithContext(ctx) // none is an error here
	for _, c := range all {
		pids = append(pids, int(c.Pid))
	}
	return pids
}
