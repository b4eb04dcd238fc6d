package power

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// supplies reads the kernel's list of power supplies. A machine without a battery of its own runs on
// mains; batteries of mice and keyboards do not count.
func supplies(dir string) *bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var line, online, battery, discharging, unknown bool
	for _, e := range entries {
		read := func(name string) string {
			b, err := os.ReadFile(filepath.Join(dir, e.Name(), name))
			if err != nil {
				return ""
			}
			return strings.TrimSpace(string(b))
		}
		if read("scope") == "Device" {
			continue
		}
		switch read("type") {
		case "Mains", "USB", "Wireless":
			line = true
			online = online || read("online") != "" && read("online") != "0"
		case "Battery", "UPS":
			if read("present") == "0" {
				continue
			}
			battery = true
			switch read("status") {
			case "Discharging":
				discharging = true
			case "Unknown", "":
				unknown = true
			}
		}
	}
	switch {
	case !battery || online:
		return new(true)
	case line || discharging:
		return new(false)
	case unknown:
		return nil
	}
	return new(true) // charging, full, or held at a limit
}

// parsePmset reads macOS's "Now drawing from 'AC Power'".
func parsePmset(text string) *bool {
	_, source, ok := strings.Cut(text, "Now drawing from '")
	source, _, closed := strings.Cut(source, "'")
	if !ok || !closed {
		return nil
	}
	switch source {
	case "AC Power":
		return new(true)
	case "Battery Power", "UPS Power":
		return new(false)
	}
	return nil
}

var hidIdle = regexp.MustCompile(`"HIDIdleTime" = (\d+)`)

// parseIOReg reads macOS's nanoseconds since the last event of keyboard or mouse.
func parseIOReg(text string) *time.Duration {
	m := hidIdle.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	ns, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return nil
	}
	return new(time.Duration(ns))
}
