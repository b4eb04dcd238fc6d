package main

import (
	"os"
	"syscall"
	"testing"
)

func TestRelayEndsTheContextThenTellsTheCommandThenForces(t *testing.T) {
	signals, again, forced := make(chan os.Signal), make(chan os.Signal), make(chan os.Signal, 1)
	cancelled, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		relay(signals, func() { close(cancelled) }, again, func(s os.Signal) { forced <- s })
	}()
	signals <- os.Interrupt
	<-cancelled

	signals <- syscall.SIGTERM // nobody waits for it
	if s := <-forced; s != syscall.SIGTERM {
		t.Errorf("forced by %v", s)
	}
	close(signals)
	<-done
}

func TestRelayHandsALaterSignalToACommandThatWaits(t *testing.T) {
	signals, again := make(chan os.Signal), make(chan os.Signal, 1) // room stands for a command that waits
	go relay(signals, func() {}, again, func(s os.Signal) { t.Errorf("forced by %v", s) })
	signals <- os.Interrupt
	signals <- os.Interrupt
	if s := <-again; s != os.Interrupt {
		t.Errorf("handed on %v", s)
	}
	close(signals)
}
