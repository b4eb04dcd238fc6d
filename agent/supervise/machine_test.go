package supervise

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"interlock.sh/internal/retry"
)

// recorder notes the effects of a machine.
type recorder struct{ did []string }

func (r *recorder) Spawn(epoch int)  { r.did = append(r.did, fmt.Sprintf("spawn%d", epoch)) }
func (r *recorder) CheckReady(int)   { r.did = append(r.did, "ready?") }
func (r *recorder) CheckAlive(int)   { r.did = append(r.did, "alive?") }
func (r *recorder) CloseStreams(int) { r.did = append(r.did, "close") }
func (r *recorder) Terminate()       { r.did = append(r.did, "term") }
func (r *recorder) Kill()            { r.did = append(r.did, "kill") }

func (r *recorder) take() string {
	s := strings.Join(r.did, " ")
	r.did = nil
	return s
}

// bench is a machine on a clock that stands still.
type bench struct {
	*machine
	rec *recorder
	now time.Time
}

func newBench() *bench {
	return &bench{
		rec: &recorder{}, now: time.Unix(1_000_000, 0),
		machine: &machine{
			state: Stopped,
			policy: Policy{
				ReadyEvery: time.Second, LoadStall: 10 * time.Second, ProbeEvery: 30 * time.Second, ProbeAgain: 2 * time.Second,
				ParkFails: 3, ParkWindow: 10 * time.Minute, PortTries: 2,
			}.WithDefaults(),
			backoff: retry.Backoff{Base: time.Second, Cap: 4 * time.Second, Jitter: func() float64 { return 0.75 }},
		},
	}
}

// pass lets time go by, with a tick whenever the machine wants one.
func (b *bench) pass(d time.Duration) {
	end := b.now.Add(d)
	for wake := b.wakeAt(); !wake.IsZero() && !wake.After(end); wake = b.wakeAt() {
		b.now = wake
		b.tick(b.now, b.rec)
	}
	b.now = end
}

const deadline = 20 * time.Second // of loading, in these tables

// step is one line of a table: what happens, the state it leads to, and what is done.
type step struct {
	what  string
	wait  time.Duration // passes before
	do    func(b *bench)
	state State
	did   string
}

func nothing(*bench)    {}
func start(b *bench)    { b.start(b.rec) }
func halt(b *bench)     { b.halt(b.now, b.rec) }
func spawned(b *bench)  { b.spawned(b.epoch, b.now, deadline) }
func slowly(b *bench)   { b.spawned(b.epoch, b.now, time.Hour-10*time.Second) }
func crash(b *bench)    { b.exited(b.epoch, b.now, b.rec, "boom", false) }
func portGone(b *bench) { b.exited(b.epoch, b.now, b.rec, "bind", true) }
func closed(b *bench)   { b.streamsClosed(b.epoch, b.now) }
func acquire(b *bench)  { b.leases++ }
func release(b *bench)  { b.release(b.epoch, b.now, true) }
func replaced(b *bench) { b.replace(b.now, b.rec) }
func retryNow(b *bench) { b.retry(b.rec) }
func ready(err error) func(*bench) {
	return func(b *bench) { b.readyResult(b.epoch, b.now, b.rec, err) }
}
func alive(err error) func(*bench) {
	return func(b *bench) { b.aliveResult(b.epoch, b.now, b.rec, err) }
}

var (
	errRefused = errors.New("connection refused")
	errHung    = errors.New("no answer within 30s")
)

// up is the way to ready.
var up = []step{
	{"start", 0, start, Starting, "spawn1"},
	{"spawned", 0, spawned, Loading, "ready?"},
	{"loaded", 0, ready(nil), Probing, "alive?"},
	{"answered", 0, alive(nil), Ready, ""},
}

func with(first []step, rest ...step) []step { return append(append([]step{}, first...), rest...) }

func TestDecisions(t *testing.T) {
	for name, steps := range map[string][]step{
		"ready only after loading, verifying and a probe": {
			{"start", 0, start, Starting, "spawn1"},
			{"spawned", 0, spawned, Loading, "ready?"},
			{"not listening", 0, ready(errRefused), Loading, ""},
			{"asked again", time.Second, nothing, Loading, "ready?"},
			{"loading", 0, ready(ErrLoading), Loading, ""},
			{"too early to ask", 500 * time.Millisecond, nothing, Loading, ""},
			{"late result of an older process", 0, func(b *bench) { b.readyResult(0, b.now, b.rec, nil) }, Loading, ""},
			{"asked again", 500 * time.Millisecond, nothing, Loading, "ready?"},
			{"loaded", 0, ready(nil), Probing, "alive?"},
			{"answered", 0, alive(nil), Ready, ""},
		},
		"a slow load that shows life passes its deadline, and ends at three times": {
			{"start", 0, start, Starting, "spawn1"},
			{"spawned", 0, spawned, Loading, "ready?"},
			{"a line", 15 * time.Second, func(b *bench) { b.progress(b.now) }, Loading, ""},
			{"past the deadline, 503 Loading", 9 * time.Second, ready(ErrLoading), Loading, ""},
			{"a line", 9 * time.Second, func(b *bench) { b.progress(b.now) }, Loading, "ready?"},
			{"a line", 9 * time.Second, func(b *bench) { b.progress(b.now) }, Loading, ""},
			{"a line", 9 * time.Second, func(b *bench) { b.progress(b.now) }, Loading, ""},
			{"a line", 8 * time.Second, func(b *bench) { b.progress(b.now) }, Loading, ""},
			{"three times over", time.Second, nothing, Stopping, "close"},
		},
		"a silent load ends at its deadline": {
			{"start", 0, start, Starting, "spawn1"},
			{"spawned", 0, spawned, Loading, "ready?"},
			{"just before", 20*time.Second - 1, nothing, Loading, ""},
			{"deadline", 1, nothing, Stopping, "close"},
			{"ends", 0, crash, Backoff, ""},
		},
		"crash, growing backoff, parked, and only Retry goes on": with(up,
			step{"crash", 0, crash, Backoff, ""},
			step{"before 0.75 s", 749 * time.Millisecond, nothing, Backoff, ""},
			step{"after", time.Millisecond, nothing, Starting, "spawn2"},
			step{"spawned", 0, spawned, Loading, "ready?"},
			step{"crash", 0, crash, Backoff, ""},
			step{"before 1.5 s", 1499 * time.Millisecond, nothing, Backoff, ""},
			step{"after", time.Millisecond, nothing, Starting, "spawn3"},
			step{"cannot start", 0, func(b *bench) { b.spawnFailed(b.epoch, b.now, errRefused) }, Parked, ""},
			step{"long after", time.Hour, nothing, Parked, ""},
			step{"start", 0, start, Parked, ""},
			step{"stop", 0, halt, Parked, ""},
			step{"start again", 0, start, Parked, ""},
			step{"retry", 0, retryNow, Starting, "spawn4"},
		),
		"failures outside the window do not park, and backoff starts over": with(up,
			step{"crash", 0, crash, Backoff, ""},
			step{"again", time.Second, nothing, Starting, "spawn2"},
			step{"spawned", 0, spawned, Loading, "ready?"},
			step{"crash", 0, crash, Backoff, ""},
			step{"again", 2 * time.Second, nothing, Starting, "spawn3"},
			step{"spawned", 0, spawned, Loading, "ready?"},
			step{"loaded", 0, ready(nil), Probing, "alive?"},
			step{"answered", 0, alive(nil), Ready, ""},
			step{"a probe", 30 * time.Second, nothing, Ready, "alive?"},
			step{"crash much later", 11 * time.Minute, crash, Backoff, ""},
			step{"0.75 s", 750 * time.Millisecond, nothing, Starting, "spawn4"},
		),
		"a start that fails slowly is parked all the same": {
			{"start", 0, start, Starting, "spawn1"},
			{"spawned", 0, slowly, Loading, "ready?"},
			{"a hang", time.Hour, crash, Backoff, "close term term kill"},
			{"again", time.Second, nothing, Starting, "spawn2"},
			{"spawned", 0, slowly, Loading, "ready?"},
			{"a hang", time.Hour, crash, Backoff, "close term term kill"},
			{"again", 2 * time.Second, nothing, Starting, "spawn3"},
			{"spawned", 0, slowly, Loading, "ready?"},
			{"a hang", time.Hour, crash, Parked, "close term term kill"},
		},
		"a new driver ends a park, and the old failures do not count": with(up,
			step{"parks", 0, func(b *bench) { b.failures = []time.Time{b.now, b.now}; crash(b) }, Parked, ""},
			step{"replace", 0, replaced, Starting, "spawn2"},
			step{"spawned", 0, spawned, Loading, "ready?"},
			step{"crash", 0, crash, Backoff, ""},
		),
		"a new driver replaces what runs": with(up,
			step{"replace", 0, replaced, Stopping, "close"},
			step{"closed", 0, closed, Stopping, "term"},
			step{"ends", 0, crash, Starting, "spawn2"},
		),
		"healthy but wedged is restarted": with(up,
			step{"idle", 30 * time.Second, nothing, Ready, "alive?"},
			step{"hangs", 30 * time.Second, alive(errHung), Unhealthy, ""},
			step{"asked again", 2 * time.Second, nothing, Unhealthy, "alive?"},
			step{"hangs", 0, alive(errHung), Unhealthy, ""},
			step{"asked again", 2 * time.Second, nothing, Unhealthy, "alive?"},
			step{"hangs", 0, alive(errHung), Stopping, "close"},
			step{"closed", 0, closed, Stopping, "term"},
			step{"ends", 0, crash, Backoff, ""},
			step{"again", time.Second, nothing, Starting, "spawn2"},
		),
		"one good probe heals": with(up,
			step{"idle", 30 * time.Second, nothing, Ready, "alive?"},
			step{"hangs", 0, alive(errHung), Unhealthy, ""},
			step{"asked again", 2 * time.Second, nothing, Unhealthy, "alive?"},
			step{"answers", 0, alive(nil), Ready, ""},
			step{"not asked soon", 29 * time.Second, nothing, Ready, ""},
		),
		"a busy child is not probed, and an answer is as good as a probe": with(up,
			step{"request", 29 * time.Second, acquire, Ready, ""},
			step{"due, but busy", time.Hour, nothing, Ready, ""},
			step{"answered", 0, release, Ready, ""},
			step{"not due", 29 * time.Second, nothing, Ready, ""},
			step{"due", time.Second, nothing, Ready, "alive?"},
			step{"a request comes while it is out", 0, acquire, Ready, ""},
			step{"its failure proves nothing", 0, alive(errHung), Ready, ""},
		),
		"a doubt is probed even when busy": with(up,
			step{"request", 0, acquire, Ready, ""},
			step{"doubt", time.Second, func(b *bench) { b.doubt(b.now, "no token for 60s") }, Unhealthy, "alive?"},
			step{"answers", 0, alive(nil), Ready, ""},
		),
		"a stop is bounded whatever the child does": with(up,
			step{"stop", 0, halt, Stopping, "close"},
			step{"streams do not close", time.Second, nothing, Stopping, "term"},
			step{"ignored", 3 * time.Second, nothing, Stopping, "term"},
			step{"ignored", 5 * time.Second, nothing, Stopping, "kill"},
			step{"held by the kernel", 3 * time.Second, nothing, Parked, ""},
			step{"nothing may start over it", 0, retryNow, Parked, ""},
			step{"gone at last", time.Minute, crash, Parked, ""},
			step{"retry after Stop", 0, retryNow, Stopped, ""},
		),
		"wanted again while stopping": with(up,
			step{"stop", 0, halt, Stopping, "close"},
			step{"start", 0, start, Stopping, ""},
			step{"ends", 0, crash, Starting, "spawn2"},
		),
		"stop while backing off": with(up,
			step{"crash", 0, crash, Backoff, ""},
			step{"stop", 0, halt, Stopped, ""},
			step{"later", time.Hour, nothing, Stopped, ""},
		),
		"a taken port is tried again at once, and counted when it goes on": {
			{"start", 0, start, Starting, "spawn1"},
			{"spawned", 0, spawned, Loading, "ready?"},
			{"taken", 0, portGone, Starting, "spawn2"},
			{"spawned", 0, spawned, Loading, "ready?"},
			{"foreign server answers", 0, ready(ErrForeign), Stopping, "close"},
			{"ends", 0, crash, Starting, "spawn3"},
			{"spawned", 0, spawned, Loading, "ready?"},
			{"taken a third time", 0, portGone, Backoff, ""},
		},
		"what is loaded and not what was asked is parked at once": {
			{"start", 0, start, Starting, "spawn1"},
			{"spawned", 0, spawned, Loading, "ready?"},
			{"wrong", 0, ready(fmt.Errorf("context 512, asked 1024: %w", ErrUnusable)), Stopping, "close"},
			{"ends", 0, crash, Parked, ""},
		},
		"drain waits for the leases": with(up,
			step{"request", 0, acquire, Ready, ""},
			step{"drain", 0, func(b *bench) { b.drain(b.now, b.rec, b.now.Add(time.Minute)) }, Ready, ""},
			step{"waits", 59 * time.Second, nothing, Ready, ""},
			step{"over", 0, release, Stopping, "close"},
			step{"ends", 0, crash, Stopped, ""},
		),
		"drain does not wait for ever": with(up,
			step{"request", 0, acquire, Ready, ""},
			step{"drain", 0, func(b *bench) { b.drain(b.now, b.rec, b.now.Add(time.Minute)) }, Ready, ""},
			step{"time is up", time.Minute, nothing, Stopping, "close"},
		),
		"a crash while draining is the end": with(up,
			step{"request", 0, acquire, Ready, ""},
			step{"drain", 0, func(b *bench) { b.drain(b.now, b.rec, b.now.Add(time.Minute)) }, Ready, ""},
			step{"crash", 0, crash, Stopped, ""},
		),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench()
			for i, s := range steps {
				b.pass(s.wait)
				s.do(b)
				b.tick(b.now, b.rec)
				if did := b.rec.take(); b.state != s.state || did != s.did {
					t.Fatalf("step %d, %s: %s (%s) doing %q, want %s doing %q", i, s.what, b.state, b.reason, did, s.state, s.did)
				}
				if wake := b.wakeAt(); !wake.IsZero() && !wake.After(b.now) {
					t.Fatalf("step %d, %s: would wake at once again and again", i, s.what)
				}
			}
		})
	}
}

func TestLoadDeadlineGrowsWithSize(t *testing.T) {
	for _, size := range []time.Duration{5, 50, 500} {
		b := newBench()
		start(b)
		b.spawned(b.epoch, b.now, size*time.Second)
		if got, want := b.loadEnds().Sub(b.now), max(size*time.Second, 10*time.Second); got != want {
			t.Errorf("a load of %ds allowed may be silent for %s, want %s", size, got, want)
		}
	}
}

func TestReasonsSayRuleAndValue(t *testing.T) {
	b := newBench()
	for range 3 {
		start(b)
		retryBackoff(b)
		spawned(b)
		crash(b)
	}
	if want := "failed 3 times within 10m0s, the last time: boom"; b.state != Parked || b.reason != want {
		t.Errorf("%s %q, want parked %q", b.state, b.reason, want)
	}
	b = newBench()
	start(b)
	spawned(b)
	ready(ErrLoading)(b)
	b.now = b.now.Add(deadline)
	b.tick(b.now, b.rec)
	if want := "not ready after 20s, of 20s allowed for its size, 20s after its last sign of life (the model is loading)"; b.reason != want {
		t.Errorf("reason %q, want %q", b.reason, want)
	}
}

// retryBackoff lets a backoff pass.
func retryBackoff(b *bench) {
	if b.state == Backoff {
		b.now = b.retryAt
		b.tick(b.now, b.rec)
	}
}
