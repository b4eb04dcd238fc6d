//go:build !linux

package mainthread

// threadID is 0 where the system has no cheap number for a thread: the tests then only look at what
// holds everywhere.
func threadID() int { return 0 }
