package measure

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"

	"interlock.sh/bench/report"
)

// The dashboard's own test and benchmark of it.
const (
	redrawTest  = "TestNothingIsDrawnWhenNothingChanged"
	redrawBench = "BenchmarkRefreshUnchanged"
)

var redrawLine = regexp.MustCompile(`(?m)^` + redrawBench + `\S*\s+(\d+)\s+([\d.]+) ns/op.*?([\d.]+) frames`)

// Redraw has the dashboard read a thousand unchanged machines again and again, and counts the frames.
func Redraw(ctx context.Context, root string) ([]report.Row, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-run", "^"+redrawTest+"$", "-bench", "^"+redrawBench+"$", "./tui")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("redraw: %w\n%s", err, out)
	}
	var refreshes int
	var each, frames float64
	m := redrawLine.FindSubmatch(out)
	if m != nil {
		_, err = fmt.Sscan(string(m[1])+" "+string(m[2])+" "+string(m[3]), &refreshes, &each, &frames)
	}
	if m == nil || err != nil {
		return nil, fmt.Errorf("redraw: the benchmark's line was not understood: %w\n%s", err, out)
	}
	frames-- // the one that shows the first read
	return []report.Row{{
		What:     "dashboard: frames drawn when a refresh of 1,000 machines changed nothing",
		Measured: fmt.Sprintf("%.0f in %d refreshes of %.1f ms", frames, refreshes, each/1e6),
		Bound:    "0", OK: frames == 0,
	}}, nil
}
