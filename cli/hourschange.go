package cli

import (
	"strings"

	"github.com/dustin/go-humanize"

	"interlock.sh/fleet/schedule"
)

// hoursChange is what the flags of `agent hours` say.
type hoursChange struct {
	start, end, days string
	spans, bandwidth []string
	onMains          bool
	idle             int
}

// change is what the arguments ask for; nil when they ask for nothing.
func (c *hoursChange) change(mode string, given func(flag string) bool) (func(*schedule.Availability), error) {
	var windows []schedule.Span
	if given("start") || given("end") || given("days") {
		if !given("start") || !given("end") || given("span") {
			return nil, usage("a window has --start and --end, and --days if it is not every day; or use --span")
		}
		text := c.start + "-" + c.end
		if c.days != "" {
			text = strings.ReplaceAll(c.days, " ", "") + " " + text
		}
		c.spans = []string{text}
	}
	for _, text := range c.spans {
		s, err := schedule.ParseSpan(text)
		if err != nil {
			return nil, err
		}
		windows = append(windows, s)
	}
	switch {
	case len(windows) > 0 && mode == "":
		mode = string(schedule.Window)
	case len(windows) > 0 && mode != string(schedule.Window):
		return nil, usage("windows belong to `hours window`, not to `hours %s`", mode)
	}
	limits, err := parseBandwidth(c.bandwidth)
	if err != nil {
		return nil, err
	}
	if mode == "" && !given("on-mains") && !given("idle-minutes") && !given("bandwidth") {
		return nil, nil
	}
	return func(a *schedule.Availability) {
		if mode != "" {
			a.Mode = schedule.Mode(mode)
		}
		if len(windows) > 0 {
			a.Windows = windows
		}
		if given("on-mains") {
			a.OnMains = c.onMains
		}
		if given("idle-minutes") {
			a.IdleMinutes = c.idle
		}
		if given("bandwidth") {
			a.Bandwidth = limits
		}
	}, nil
}

// parseBandwidth reads limits as people type them: "09:00-17:00=1MiB", and "none".
func parseBandwidth(texts []string) ([]schedule.Bandwidth, error) {
	var out []schedule.Bandwidth
	if len(texts) == 1 && texts[0] == "none" {
		return nil, nil
	}
	for _, text := range texts {
		span, rate, ok := strings.Cut(text, "=")
		if !ok {
			return nil, usage("--bandwidth %s names no limit; write it as 09:00-17:00=1MiB, or none to lift all", text)
		}
		s, err := schedule.ParseSpan(span)
		if err != nil {
			return nil, err
		}
		n, err := humanize.ParseBytes(strings.TrimSuffix(rate, "/s"))
		if err != nil || n > 1<<50 {
			return nil, usage("--bandwidth %s: %s is no number of bytes a second, as 1MiB is", text, rate)
		}
		out = append(out, schedule.Bandwidth{Span: s, BytesPerSecond: int64(n)})
	}
	return out, nil
}
