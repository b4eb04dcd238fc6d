package supervise

import (
	"fmt"
	"time"
)

// after is what follows when a child that was told to end has ended.
type after int

const (
	thenNothing after = iota // stopped, unless it is wanted again by then
	thenAgain                // another process, if wanted
	thenFail                 // count a failure
	thenPark                 // starting again would change nothing
	thenPort                 // another port
)

// phase is how far a stop has gone.
type phase int

const (
	closingStreams phase = iota
	termSent
	termSentAgain
	killSent
)

// stopping is a stop under way. Each phase has an end of its own, so their sum bounds the whole.
type stopping struct {
	phase  phase
	next   time.Time // when the next phase begins
	then   after
	reason string
}

// end tells the process to end: streams first, for a server may wait for its clients for ever.
func (m *machine) end(now time.Time, fx Effects, then after, reason string) {
	m.stop = stopping{next: now.Add(m.policy.CloseWithin), then: then, reason: reason}
	m.draining = false
	m.to(Stopping, reason)
	fx.CloseStreams(m.epoch)
}

// streamsClosed ends the first phase early.
func (m *machine) streamsClosed(epoch int, now time.Time) {
	if epoch == m.epoch && m.state == Stopping && m.stop.phase == closingStreams {
		m.stop.next = now
	}
}

func (m *machine) stopTick(now time.Time, fx Effects) {
	if now.Before(m.stop.next) {
		return
	}
	switch m.stop.phase {
	case closingStreams:
		fx.Terminate()
		m.stop.phase, m.stop.next = termSent, now.Add(m.policy.TermAgain)
	case termSent:
		fx.Terminate()
		m.stop.phase, m.stop.next = termSentAgain, now.Add(m.policy.KillAfter)
	case termSentAgain:
		fx.Kill()
		m.stop.phase, m.stop.next = killSent, now.Add(m.policy.ReapWithin)
	case killSent:
		// Only the kernel can hold a process now (a driver, a dead disk). Nothing more may be started
		// over it, and nobody is kept waiting.
		m.to(Parked, fmt.Sprintf("its process did not end within %s of SIGKILL: the system holds it, a restart of the machine frees it",
			round(m.policy.ReapWithin)))
	}
}

// ended: the stopped process is gone.
func (m *machine) ended(now time.Time, fx Effects) {
	switch m.stop.then {
	case thenFail:
		m.fail(now, m.stop.reason)
	case thenPark:
		m.lastFailure = m.stop.reason
		m.to(Parked, m.stop.reason)
	case thenPort:
		m.portTaken(now, fx, m.stop.reason)
	case thenNothing, thenAgain:
		m.again(fx)
	}
}
