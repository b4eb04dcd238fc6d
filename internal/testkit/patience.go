package testkit

import (
	"testing"
	"time"
)

// Patience bounds every wait of a test. It costs nothing when all is well, and a busy machine needs it.
const Patience = time.Minute

// Get takes a value from c, or fails the test when none comes. A closed channel has a value too.
func Get[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case v := <-c:
		return v
	case <-late.C:
		t.Fatalf("waited %v in vain for %s", Patience, what)
		panic("not reached")
	}
}

// Put gives c a value, or fails the test when nobody takes it.
func Put[T any](t testing.TB, what string, c chan<- T, v T) {
	t.Helper()
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case c <- v:
	case <-late.C:
		t.Fatalf("for %v nobody took %s: %v", Patience, what, v)
	}
}
