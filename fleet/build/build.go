// Package build is the vocabulary of released programs: what a signed target says of itself and which
// target a machine should run. It is pure; updater verifies and installs, release builds and signs.
package build

// The programs that are released.
const (
	Interlock  = "interlock"
	TUI        = "interlock-tui"
	Nightshift = "nightshift"
)

// The channels.
const (
	Stable = "stable"
	Canary = "canary"
)

// Target is one released file: the "custom" object of its TUF target. The target's path is
// <program>/<version>/<program>-<os>-<arch>, its length and SHA-256 are the metadata's own.
type Target struct {
	Program    string         `json:"program"`
	Version    string         `json:"version"` // semantic version, without a leading v
	OS         string         `json:"os"`
	Arch       string         `json:"arch"`
	Channels   map[string]int `json:"channels"`             // channel → percentage of machines that may take it, 0 to 100
	MinVersion string         `json:"minVersion,omitempty"` // older programs must not go to this version at once
	Security   bool           `json:"security,omitempty"`   // a busy machine is drained within 30 minutes, not 6 hours
	Yanked     string         `json:"yanked,omitempty"`     // why nobody should install it any more
}

// Path is the name of the target in the repository.
func (t Target) Path() string {
	return t.Program + "/" + t.Version + "/" + t.File()
}

// File is the name of the program's file for its platform.
func (t Target) File() string { return t.Program + "-" + t.OS + "-" + t.Arch }
