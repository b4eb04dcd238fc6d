package llama

import (
	"regexp"
	"strconv"
	"strings"
)

// Old builds print "version: 6123 (a1b2c3d)", newer ones "version: 0.1.0-dev (build 1, commit 7e4c0a9)".
var (
	versionLine = regexp.MustCompile(`(?m)^version: *(.+?)\s*$`)
	buildNumber = regexp.MustCompile(`^(\d+) \(|\(build (\d+)`)
)

func parseVersion(out string) (version string, build int) {
	m := versionLine.FindStringSubmatch(out)
	if m == nil {
		return "unknown", 0
	}
	version = m[1]
	if b := buildNumber.FindStringSubmatch(version); b != nil {
		if n, err := strconv.Atoi(b[1] + b[2]); err == nil { // one of the two is empty
			build = n
		}
	}
	return version, build
}

// option is one name of an option, in the list of names that starts a line of --help.
var option = regexp.MustCompile(`(?:^|[ ,])(--?[a-zA-Z][a-zA-Z0-9-]*)`)

func parseFlags(help string) Flags {
	flags := Flags{}
	for line := range strings.Lines(help) {
		line = strings.TrimRight(line, "\r\n")
		// Descriptions are indented and may quote other options; names start in the first column.
		if !strings.HasPrefix(line, "-") || strings.HasPrefix(line, "---") {
			continue
		}
		for _, m := range option.FindAllStringSubmatch(names(line), -1) {
			flags[m[1]] = true
		}
	}
	return flags
}

// names cuts the description off an option line. Names are separated by ", " or by ",  " after a short
// one, so the description starts at the first two spaces that follow no comma.
func names(line string) string {
	for i := 0; i+1 < len(line); i++ {
		if line[i] == ' ' && line[i+1] == ' ' {
			if i > 0 && line[i-1] != ',' && !strings.HasPrefix(strings.TrimLeft(line[i:], " "), "-") {
				return line[:i]
			}
			for i+1 < len(line) && line[i+1] == ' ' {
				i++
			}
		}
	}
	return line
}

// parseDevices reads --list-devices. BLAS and Accelerate are listed as devices and compute on the CPU.
func parseDevices(out string) (gpus []string, known bool) {
	_, list, known := strings.Cut(out, "Available devices:")
	if !known {
		return nil, false
	}
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		name, _, isDevice := strings.Cut(line, ": ")
		if !isDevice || strings.ContainsAny(name, " \t") || strings.HasPrefix(name, "BLAS") || strings.HasPrefix(name, "CPU") {
			continue
		}
		gpus = append(gpus, line)
	}
	return gpus, true
}

// capped keeps the first max bytes written to it and swallows the rest.
type capped struct {
	buf strings.Builder
	max int
}

// Write takes all and keeps the beginning.
func (c *capped) Write(p []byte) (int, error) {
	if room := c.max - c.buf.Len(); room > 0 {
		c.buf.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// String is what was kept.
func (c *capped) String() string { return c.buf.String() }

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
