package measure

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"interlock.sh/bench/report"
	"interlock.sh/bench/rig"
)

// The bounds of Nightshift in the bar while nothing changes; the second is what rounds to 0%.
const (
	maxBarMemory = 120
	maxBarCPU    = 0.005
)

var barLine = regexp.MustCompile(`idle: (\d+) MB, (\d+) ticks of 10 ms in (\d+) s`)

// Nightshift shows the machine in a real panel on a screen of its own, and watches the app when nobody
// touches it.
func Nightshift(ctx context.Context, root, dir string, m *rig.Machine, length time.Duration) ([]report.Row, error) {
	shots := filepath.Join(dir, "shots")
	cmd := exec.CommandContext(ctx, filepath.Join(root, "packaging", "test", "nightshift-x.sh"), shots)
	cmd.Env = append(os.Environ(), "AGENT_HOME="+string(m.Home), fmt.Sprintf("IDLE_SECONDS=%.0f", length.Seconds()))
	out, err := cmd.CombinedOutput()
	found := barLine.FindSubmatch(out)
	if found == nil {
		return nil, fmt.Errorf("nightshift: %w\n%s", err, out) // what it only judges too large has the line
	}
	var seen [3]int
	for i := range seen {
		if seen[i], err = strconv.Atoi(string(found[i+1])); err != nil {
			return nil, fmt.Errorf("nightshift: %w", err)
		}
	}
	share := float64(seen[1]) * tick.Seconds() / float64(seen[2])
	return []report.Row{
		{
			What:     "Nightshift in the bar: memory",
			Measured: fmt.Sprintf("%d MB", seen[0]),
			Bound:    fmt.Sprintf("≤ %d MB", maxBarMemory), OK: seen[0] <= maxBarMemory,
		},
		{
			What:     fmt.Sprintf("Nightshift in the bar: processor over %d s in which nothing changed", seen[2]),
			Measured: fmt.Sprintf("%.1f%% of a core", 100*share),
			Bound:    "0%", OK: share < maxBarCPU,
		},
	}, nil
}
