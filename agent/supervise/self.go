package supervise

import "os"

// Self is the identity of this process, for records that must not be taken for another's later.
func Self() (Identity, error) { return identify(os.Getpid()) }

// Running reports whether this very process still runs; a later one with the same pid is another.
func (id Identity) Running() bool { return id.running() }
