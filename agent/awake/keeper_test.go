package awake

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"interlock.sh/internal/clock"
	"interlock.sh/internal/testkit"
)

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	late := time.NewTimer(testkit.Patience)
	defer late.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// run runs a keeper until the test's end.
func run(t *testing.T, o Options) (k *Keeper, stop func()) {
	t.Helper()
	k = New(o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = k.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return k, stop
}

// fakeSystem counts the locks that are out.
type fakeSystem struct {
	mu     sync.Mutex
	asked  int
	out    int
	lost   chan struct{}
	refuse error
}

func (f *fakeSystem) take(context.Context) (Lock, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.refuse != nil {
		return Lock{}, f.refuse
	}
	f.out++
	f.lost = make(chan struct{})
	return Lock{Lost: f.lost, Release: func() { f.mu.Lock(); f.out--; f.mu.Unlock() }}, nil
}

func (f *fakeSystem) seen() (asked, out int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked, f.out
}

func (f *fakeSystem) refuses(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = err
}

func TestTheLockIsHeldOnlyWhileATaskRuns(t *testing.T) {
	sys := &fakeSystem{}
	k, stop := run(t, Options{Take: sys.take})
	if asked, _ := sys.seen(); asked != 0 || k.State() != (State{}) {
		t.Errorf("without a task: asked %d times, %+v", asked, k.State())
	}
	one, two := k.Hold(), k.Hold()
	await(t, "the lock", func() bool { return k.State().Held })
	one()
	one()         // a second call is nothing
	for range 3 { // it has room for one: when it takes the third, it has looked after the first
		testkit.Put(t, "a look of the keeper", k.poke, struct{}{})
	}
	if _, out := sys.seen(); out != 1 || !k.State().Held {
		t.Errorf("with a task left: %d locks, %+v", out, k.State())
	}
	two()
	await(t, "its release", func() bool { _, out := sys.seen(); return out == 0 && !k.State().Held })
	k.Hold()
	await(t, "the lock again", func() bool { return k.State().Held })
	stop()
	if _, out := sys.seen(); out != 0 || k.State().Held {
		t.Errorf("after the end: %d locks, %+v", out, k.State())
	}
}

func TestARefusalIsKeptInWordsAndAskedAgainWithPauses(t *testing.T) {
	sys, fake := &fakeSystem{refuse: errors.New("logind says no")}, clock.NewFake(time.Now())
	moved := make(chan struct{}, 100)
	k, _ := run(t, Options{Take: sys.take, Clock: fake, Changed: func() { moved <- struct{}{} }})
	k.Hold()
	testkit.Get(t, "the refusal", moved)
	if st := k.State(); st.Held || st.Refused != "logind says no" {
		t.Errorf("refused: %+v", st)
	}
	for range 50 { // many tasks are not many questions
		k.Hold()()
	}
	fake.AwaitWaiters(1)
	if asked, _ := sys.seen(); asked != 1 {
		t.Errorf("asked %d times at once", asked)
	}
	sys.refuses(nil)
	await(t, "the lock, once it is given", func() bool { fake.Advance(time.Second); return k.State() == State{Held: true} })
	if asked, _ := sys.seen(); asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}

func (f *fakeSystem) lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.lost)
}

func TestALockThatIsLostIsTakenAnew(t *testing.T) {
	sys, fake := &fakeSystem{}, clock.NewFake(time.Now())
	k, _ := run(t, Options{Take: sys.take, Clock: fake})
	k.Hold()
	await(t, "the lock", func() bool { return k.State().Held })
	fake.Advance(steady)
	sys.lose()
	await(t, "another, without a pause", func() bool { asked, out := sys.seen(); return asked == 2 && out == 1 && k.State() == State{Held: true} })
}

func TestALockThatIsLostAtOnceIsTakenAnewWithPausesThatGrow(t *testing.T) {
	sys, fake := &fakeSystem{}, clock.NewFake(time.Now())
	k, _ := run(t, Options{Take: sys.take, Clock: fake})
	k.Hold()
	start := fake.Now()
	for n := 1; n <= 8; n++ {
		await(t, "the lock", func() bool { return k.State().Held })
		sys.lose()
		await(t, "its loss in words", func() bool { st := k.State(); return !st.Held && st.Refused == "the lock against sleep was lost" })
		fake.AwaitWaiters(1)
		if asked, _ := sys.seen(); asked != n {
			t.Fatalf("after loss %d it was asked %d times", n, asked)
		}
		await(t, "the next one", func() bool { fake.Advance(time.Second); asked, _ := sys.seen(); return asked == n+1 })
	}
	if took := fake.Now().Sub(start); took < 8*againFirst {
		t.Errorf("8 locks were lost within %v", took)
	}
}
