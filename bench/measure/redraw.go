package measure

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"

	"interlock.sh/bench/report"
)

var (
	frames   = regexp.MustCompile(`(?m)^BenchmarkRefreshUnchanged\S*\s+(\d+)\s+(\d+) ns/op.*?([\d.]+) frames`)
	nothing  = "TestNothingIsDrawnWhenNothingChanged"
	redrawIn = "./tui"
)

// Redraw has the dashboard read a thousand unchanged machines again and again, and counts the frames.
func Redraw(ctx context.Context, root string) ([]report.Row, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-run", "^"+nothing+"$", "-bench", "^BenchmarkRefreshUnchanged$", redrawIn)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("redraw: %w\n%s", err, out)
	}
	m := frames.FindSubmatch(out)
	if m == nil {
		return nil, fmt.Errorf("redraw: the benchmark printed no frames:\n%s", out)
	}
	return []report.Row{{
		What:     "dashboard: frames drawn by unchanged refreshes of 1,000 machines",
		Measured: fmt.Sprintf("%s beyond the first, in %s refreshes of %s ns", less(string(m[3])), m[1], m[2]),
		Bound:    "0", OK: less(string(m[3])) == "0",
	}}, nil
}

// less takes the one frame away that shows the first read.
func less(frames string) string {
	if frames == "1.000" || frames == "1" {
		return "0"
	}
	return frames + " − 1"
}
