// Package mainthread runs functions on the program's main operating-system thread.
//
// Linux sends a child its parent-death signal when the thread that forked it ends, not when the
// process does, and after an exec only the main thread is left. So children that must die with us,
// and live through our replacing ourselves, are forked from the main thread and from no other.
//
// It owns that one thread and nothing else: it knows no children. Its state is the process's, as the
// main thread is: there is one of each.
package mainthread

import (
	"runtime"
	"sync"
)

// This init cannot be a call from main: the goroutine that runs init functions and main.main is on
// the main thread for certain only until the first init returns, and stays there when it is locked in
// one. It registers nothing.
func init() { runtime.LockOSThread() }

var thread = struct {
	sync.Mutex
	calls  chan func()
	served bool
}{calls: make(chan func())}

// Run serves Do on the main thread while app runs on another goroutine, and returns app's exit code.
// It must be called from main (or TestMain), once, before the first Do: anything else is a mistake in
// the program and panics.
func Run(app func() int) int {
	thread.Lock()
	if thread.served {
		thread.Unlock()
		panic("mainthread: Run after Run or Do")
	}
	thread.served = true
	thread.Unlock()

	done := make(chan int, 1)
	go func() {
		code := 2 // what the caller sees when app ends by runtime.Goexit
		defer func() { done <- code }()
		code = app()
	}()
	for {
		select {
		case call := <-thread.calls:
			call()
		case code := <-done:
			return code
		}
	}
}

// Do runs f on the main thread and returns when f has returned. A panic of f ends the program, as a
// panic on any goroutine does. f must not call Do, and Do must not be called once Run has returned.
//
// In a program that never called Run, as tests are, f runs on one thread kept for it that never ends:
// good enough for the parent-death signal, but not across an exec.
func Do(f func()) {
	thread.Lock()
	if !thread.served {
		thread.served = true
		go func() {
			runtime.LockOSThread() // never unlocked and never returning: the thread lives as long as we do
			for call := range thread.calls {
				call()
			}
		}()
	}
	thread.Unlock()

	done := make(chan struct{})
	thread.calls <- func() {
		defer close(done)
		f()
	}
	<-done
}
