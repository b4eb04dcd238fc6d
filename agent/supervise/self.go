package supervise

import (
	"encoding/json"
	"os"
)

// Self is the identity of this process, for records that must not be taken for another's later.
func Self() (Identity, error) { return identify(os.Getpid()) }

// Running reports whether this very process still runs; a later one with the same pid is another.
func (id Identity) Running() bool { return id.running() }

// Recorded is the identity that a file holds as JSON; false when it holds none, or that process has ended.
func Recorded(path string) (Identity, bool) {
	var id Identity
	b, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(b, &id) != nil {
		return id, false
	}
	return id, id.Running()
}
