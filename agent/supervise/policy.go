package supervise

import "time"

// Policy has the numbers. A zero field has the default that its comment names.
type Policy struct {
	ReadyEvery  time.Duration // between two readiness checks: 250 ms
	ReadyWithin time.Duration // deadline of one: 5 s
	LoadStall   time.Duration // past the load deadline, silence that long ends the start: 60 s
	LoadFactor  int           // however lively it is, loading ends at the load deadline times this: 3

	ProbeEvery  time.Duration // between two probes of an idle, ready child: 30 s
	ProbeWithin time.Duration // deadline of one: 30 s
	ProbeAgain  time.Duration // after a failed probe: 2 s
	ProbeFails  int           // failed probes in a row that make a restart: 3

	BackoffBase time.Duration // first step of the full-jitter backoff: 1 s
	BackoffCap  time.Duration // largest step: 60 s
	ParkFails   int           // so many failures …: 5
	ParkWindow  time.Duration // … within this time park the child: 10 min
	PortTries   int           // ports found taken in a row that are not counted as failures: 5

	CloseWithin time.Duration // for CloseStreams: 1 s
	TermAgain   time.Duration // between SIGTERM and its repetition: 3 s
	KillAfter   time.Duration // between that and SIGKILL: 5 s
	ReapWithin  time.Duration // between SIGKILL and giving up: 3 s
}

// WithDefaults fills the zero fields.
func (p Policy) WithDefaults() Policy {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&p.ReadyEvery, 250 * time.Millisecond}, {&p.ReadyWithin, 5 * time.Second}, {&p.LoadStall, time.Minute},
		{&p.ProbeEvery, 30 * time.Second}, {&p.ProbeWithin, 30 * time.Second}, {&p.ProbeAgain, 2 * time.Second},
		{&p.BackoffBase, time.Second}, {&p.BackoffCap, time.Minute}, {&p.ParkWindow, 10 * time.Minute},
		{&p.CloseWithin, time.Second}, {&p.TermAgain, 3 * time.Second}, {&p.KillAfter, 5 * time.Second},
		{&p.ReapWithin, 3 * time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	for _, n := range []struct {
		field *int
		value int
	}{{&p.LoadFactor, 3}, {&p.ProbeFails, 3}, {&p.ParkFails, 5}, {&p.PortTries, 5}} {
		if *n.field == 0 {
			*n.field = n.value
		}
	}
	return p
}

// StopBound is the longest that stopping a child takes, whatever the child does.
func (p Policy) StopBound() time.Duration {
	return p.CloseWithin + p.TermAgain + p.KillAfter + p.ReapWithin
}
