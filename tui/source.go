package tui

import "reflect"

// source is one thing that is read from the server again and again: what it was last, and whether a
// read is under way. At most one read of a source is, so hints that come meanwhile are one more read.
type source[T any] struct {
	value  T
	loaded bool  // value was read at least once
	err    error // of the newest read
	busy   bool
	again  bool
}

// begin reports whether a read should start now. When one is under way, it remembers to read again.
func (s *source[T]) begin() bool {
	if s.busy {
		s.again = true
		return false
	}
	s.busy = true
	return true
}

// end takes what a read brought. It reports whether that changed anything that is shown, and whether
// to read again.
func (s *source[T]) end(v T, err error) (changed, again bool) {
	again, s.busy, s.again = s.again, false, false
	changed = words(err) != words(s.err)
	s.err = err
	if err != nil {
		return changed, again
	}
	if !s.loaded || !reflect.DeepEqual(v, s.value) {
		changed = true
	}
	s.value, s.loaded = v, true
	return changed, again
}

func words(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
