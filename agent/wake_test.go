package agent

import (
	"testing"
	"time"

	"interlock.sh/fleet"
	"interlock.sh/internal/testkit/fakellama"
)

func TestASleepIsAJumpOfTheWallClock(t *testing.T) {
	t.Parallel()
	began := time.Now()
	for _, c := range []struct {
		name         string
		wall, steady time.Duration
		jumped       bool
	}{
		{"time passes", time.Hour, time.Hour, false},
		{"the clock is trimmed", 10*time.Second + 4*time.Second, 10 * time.Second, false},
		{"a sleep", 8 * time.Hour, time.Second, true},
		{"a short sleep", 6 * time.Second, time.Second, true},
		{"the clock is set back", -time.Hour, time.Second, true},
	} {
		w := sleepWatch{wall: began.Round(0)}
		by, jumped := w.look(began.Add(c.wall), c.steady)
		if jumped != c.jumped || by != c.wall-c.steady {
			t.Errorf("%s: %v, %v", c.name, by, jumped)
		}
		if by, jumped := w.look(began.Add(c.wall), c.steady); jumped || by != 0 {
			t.Errorf("%s: it is seen twice", c.name)
		}
	}
}

// A machine that slept may have lost its accelerator: the model server runs, and answers nothing.
func TestAModelThatDoesNotAnswerAfterASleepIsStartedAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{HangAfter: 1}, onFakeTime)
	r.policy.ProbeWithin, r.policy.ProbeFails = 500*time.Millisecond, 2
	r.plane.Deploy(nil, r.group, "tiny", 1)
	r.start()
	before := r.awaitWords("tiny", "ready")
	r.night.sleep(r.fake, 40*time.Minute) // less than to the next probe of an idle server
	r.await("another process that serves", func() bool {
		d := r.deployment("tiny")
		return d.Pid != 0 && d.Pid != before.Pid && d.State.Kind == fleet.StateReady
	})
	if d := r.deployment("tiny"); d.Restarts != 1 {
		t.Errorf("it was started anew %d times", d.Restarts)
	}
}

func TestAModelThatAnswersAfterASleepStaysLoaded(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{}, onFakeTime)
	r.plane.Deploy(nil, r.group, "tiny", 1)
	r.start()
	before := r.awaitWords("tiny", "ready")
	r.agent.host.program.mu.Lock()
	asked := r.agent.host.program.asked
	r.agent.host.program.mu.Unlock()
	r.night.sleep(r.fake, 5*time.Minute)
	r.await("the program asked anew", func() bool {
		r.agent.host.program.mu.Lock()
		defer r.agent.host.program.mu.Unlock()
		return r.agent.host.program.asked.After(asked)
	})
	r.await("the answer", func() bool {
		d := r.deployment("tiny")
		return d.State.Kind == fleet.StateReady && d.ReadySince != nil && d.ReadySince.After(*before.ReadySince)
	})
	if d := r.deployment("tiny"); d.Pid != before.Pid || d.Restarts != 0 {
		t.Errorf("it was started anew: %+v", d)
	}
}
