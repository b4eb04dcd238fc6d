package clock

import (
	"testing"
	"time"
)

func TestFakeFiresDueTimersOnly(t *testing.T) {
	f := NewFake(time.Unix(100, 0))
	soon, late, past := f.After(time.Second), f.After(time.Hour), f.After(0)
	if got := <-past; !got.Equal(time.Unix(100, 0)) {
		t.Fatalf("a timer of 0 fired at %v", got)
	}
	f.AwaitWaiters(2)
	f.Advance(time.Second)
	if got := <-soon; !got.Equal(time.Unix(101, 0)) {
		t.Fatalf("fired at %v, want 101 s", got)
	}
	select {
	case <-late:
		t.Fatal("a timer fired before its time")
	default:
	}
	f.Advance(time.Hour)
	<-late
}

func TestAwaitWaitersWakesOnNewTimer(t *testing.T) {
	f := NewFake(time.Unix(0, 0))
	done := make(chan struct{})
	go func() { f.AwaitWaiters(1); close(done) }()
	f.After(time.Minute)
	<-done
}
