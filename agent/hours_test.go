package agent

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/hostfacts"
	"interlock.sh/agent/localapi"
	"interlock.sh/agent/power"
	"interlock.sh/ai"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/testkit/fakellama"
	"interlock.sh/tasks"
)

// inZone puts the machine into a zone at a wall-clock time of 10 June 2026, a Wednesday.
func inZone(name, at string) rigOption {
	return func(r *rig, _ *enrollment.Request) {
		r.Helper()
		loc, err := time.LoadLocation(name)
		if err != nil {
			r.Fatal(err)
		}
		now, err := time.ParseInLocation("2006-01-02 15:04", "2026-06-10 "+at, loc)
		if err != nil {
			r.Fatal(err)
		}
		r.fake = clock.NewFake(now)
		r.night.zone = &hostfacts.Zone{Name: name, Location: loc}
	}
}

// wants sets the owner's hours through the door.
func (r *rig) wants(a schedule.Availability) localapi.Status {
	r.Helper()
	st, err := r.door().SetAvailability(context.Background(), a)
	if err != nil {
		r.Fatal("set the hours:", err)
	}
	return st
}

// awaitWordsNow waits until the owner sees these words, without letting time pass.
func (r *rig) awaitWordsNow(words string) {
	r.Helper()
	fake := r.fake
	r.fake = nil
	defer func() { r.fake = fake }()
	r.await(words, func() bool { return r.agent.Status(context.Background()).Words == words })
}

// machine is what the control plane shows now.
func (r *rig) machine() fleet.Machine {
	r.Helper()
	m, err := r.plane.Owner.Machine(context.Background(), r.e.Machine)
	if err != nil {
		r.Fatal(err)
	}
	return m.Machine
}

// wallClock is what a clock on the wall of the machine's room shows.
func (r *rig) wallClock() string { return r.fake.Now().In(r.night.zone.Location).Format("15:04") }

// passUntil lets time pass until shortly before the minute ends that the wall clock shows next.
func (r *rig) passUntil(minute string) {
	for r.wallClock() != minute {
		r.fake.Advance(30 * time.Second)
	}
	for r.fake.Now().Second() < 55 {
		r.fake.Advance(time.Second)
	}
}

func (r *rig) noModel() bool { return len(r.agent.Report(context.Background()).Deployments) == 0 }

func TestTheNightOpensAndClosesTheMachineByTheClock(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{}, inZone("Europe/Berlin", "20:00"))
	r.plane.Deploy(nil, r.group, "tiny", 1)
	r.start()
	r.awaitMachine("ready")
	st := r.wants(schedule.Availability{Mode: schedule.Night})
	if st.Hours.Open || st.Hours.Mode != "night" || st.Hours.Why != "until 22:00" || st.Owner != fleet.Paused || st.Wish.Mode != schedule.Night {
		t.Errorf("the door says %+v, %+v", st.Hours, st.Wish)
	}
	m := r.awaitMachine("paused (by owner until 22:00)")
	if h := m.Hours; h == nil || h.Open || h.Next == nil || h.Next.UTC().Format("15:04") != "20:00" {
		t.Errorf("the control plane has the hours %+v", m.Hours)
	}
	if !r.noModel() {
		t.Error("a model is in memory outside the hours")
	}
	// The change itself comes at once; how long a model takes to load or to end is not what is looked at.
	flips := func(minute string, open bool) (at string) {
		t.Helper()
		r.passUntil(minute)
		if r.agent.Status(t.Context()).Hours.Open == open {
			t.Errorf("at %s it is open: %v", minute, open)
		}
		r.step = slowly
		r.await("the change of the hours", func() bool {
			at = r.wallClock()
			return r.agent.Status(t.Context()).Hours.Open == open
		})
		r.step = time.Second
		return at
	}
	if at := flips("21:59", true); at < "22:00" || at > "22:05" {
		t.Errorf("it opened at %s", at)
	}
	r.awaitMachine("ready")
	if at := flips("06:59", false); at < "07:00" || at > "07:05" {
		t.Errorf("it closed at %s", at)
	}
	r.awaitMachine("paused (by owner until 22:00)")
}

func TestATravellersHoursGoByTheZoneOfToday(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{}, inZone("Europe/Berlin", "23:00"))
	r.start()
	r.wants(schedule.Availability{Mode: schedule.Night})
	r.awaitMachine("idle")
	there, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	r.night.set(func(s *sitting) { s.zone = &hostfacts.Zone{Name: "America/New_York", Location: there} })
	m := r.awaitMachine("paused (by owner until 22:00)")
	if m.Host.Zone != "America/New_York" || m.Hours.Next.UTC().Format("15:04") != "02:00" {
		t.Errorf("zone %s, hours %+v", m.Host.Zone, m.Hours)
	}
	r.night.set(func(s *sitting) {
		s.zone = &hostfacts.Zone{Location: time.FixedZone("CEST", 2*3600), Problem: `the time zone "Mars/Olympus" of TZ does not exist`}
	})
	r.awaitMachine("idle")
	m = r.machine()
	if m.Host.Zone != "" || !slices.Contains(m.Warnings, `the time zone "Mars/Olympus" of TZ does not exist`) {
		t.Errorf("a zone that does not exist: %q, %q", m.Host.Zone, m.Warnings)
	}
}

func TestWhatTheMachineMeasuresIsACeilingToo(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{}, onFakeTime)
	r.plane.Deploy(nil, r.group, "tiny", 1)
	r.start()
	r.awaitMachine("ready")
	if len(r.night.needs) != 0 {
		t.Errorf("measured for nobody: %v", r.night.needs)
	}
	r.wants(schedule.Availability{OnMains: true, IdleMinutes: 10})
	r.await("the warnings", func() bool { return len(r.machine().Warnings) == 2 })
	m := r.machine()
	for _, words := range []string{"the owner's limit does not hold: whether it runs on mains power is not known", "the owner's limit does not hold: whether somebody uses it is not known"} {
		if !slices.Contains(m.Warnings, words) {
			t.Errorf("what is unknown is not said: %q", m.Warnings)
		}
	}
	r.night.set(func(s *sitting) { s.mains = new(false) })
	r.awaitMachine("paused (by owner: on battery)")
	r.await("the model gone", r.noModel)
	r.night.set(func(s *sitting) { s.mains, s.idle = new(true), new(time.Minute) })
	m = r.awaitMachine("paused (by owner: in use)")
	if m.Hours.Next != nil || m.Hours.Why != "in use" {
		t.Errorf("nobody knows when it is free: %+v", m.Hours)
	}
	r.night.set(func(s *sitting) { s.idle = new(10 * time.Minute) })
	if m := r.awaitMachine("ready"); len(m.Warnings) != 0 {
		t.Errorf("all is known: %q", m.Warnings)
	}
	r.wants(schedule.Availability{OnMains: true})
	r.await("the last question", func() bool {
		r.night.mu.Lock()
		defer r.night.mu.Unlock()
		return r.night.needs[len(r.night.needs)-1] == power.Need{Mains: true}
	})
}

func TestAPauseForAWhileEndsByItself(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{}, inZone("Europe/Berlin", "13:05"))
	r.start()
	r.awaitMachine("idle")
	st, err := r.door().Pause(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	at := r.fake.Now().Add(time.Hour)
	if st.Wish.Hold == nil || st.Wish.Hold.Until == nil || at.Sub(*st.Wish.Hold.Until) > time.Minute {
		t.Fatalf("after a pause for an hour: %s, %+v", st.Words, st.Wish.Hold)
	}
	until := st.Wish.Hold.Until.In(r.night.zone.Location)
	words := "paused (by owner until " + until.Format("15:04") + ")"
	if st.Words != words {
		t.Errorf("after a pause for an hour: %s, want %s", st.Words, words)
	}
	r.limit = until.Add(-time.Second)
	// An agent that starts anew in the middle of it keeps it.
	r.stop()
	r.start()
	r.awaitMachine(words)
	r.limit = time.Time{}
	r.fake.Advance(time.Hour)
	r.awaitMachine("idle")
	if st := r.agent.Status(t.Context()); st.Wish.Hold != nil || !st.Hours.Open {
		t.Errorf("a pause that is over is still shown: %+v", st.Wish)
	}
}

func TestWorkInHandGoesBackWhenTheGraceIsOver(t *testing.T) {
	t.Parallel()
	control := fakellama.NewControl(t)
	control.Step(1) // for the probe
	r := newRig(t, fakellama.Config{Control: control.Path(), GateTokens: true})
	r.grace = 200 * time.Millisecond
	r.plane.Deploy(nil, r.group, "tiny", 1)
	r.start()
	r.awaitMachine("ready")
	restarted := make(chan struct{}, 10)
	id := r.submit(ai.RunRequest{Model: "tiny", Prompt: "hello"})
	answered := r.follow(id, func(event string, _ ai.StreamEvent) {
		if event == ai.StreamRestarted {
			restarted <- struct{}{}
		}
	})
	r.await("the request in hand", func() bool { return r.deployment("tiny").Busy == 1 })
	if _, err := r.door().SetOwner(t.Context(), fleet.Paused); err != nil {
		t.Fatal(err)
	}
	r.awaitWordsNow("draining") // within the grace
	r.awaitMachine("paused (by owner)")
	if !r.noModel() {
		t.Error("the model is still in memory")
	}
	r.await("the run queued again", func() bool {
		run, err := r.plane.Owner.Run(context.Background(), id)
		return err == nil && run.State == tasks.Queued
	})
	control.Open()
	if _, err := r.door().SetOwner(t.Context(), fleet.Active); err != nil {
		t.Fatal(err)
	}
	if run := <-answered; run.State != tasks.Succeeded || run.Answer == nil || *run.Answer != "Hello, world." {
		t.Errorf("the run that was handed back: %+v", run)
	}
}

// The owner may give the machine free in the moment in which its grace ends.
func TestAHandBackThatComesTooLateKeepsNobodyFromWorking(t *testing.T) {
	t.Parallel()
	r, _ := newServingRig(t, fakellama.Config{})
	r.agent.handBack(t.Context(), "the machine is paused (by owner)")
	if run := <-r.ask("tiny"); run.State != tasks.Succeeded {
		t.Errorf("the run after it: %+v", run)
	}
}

func TestWorkThatEndsWithinTheGraceIsDone(t *testing.T) {
	t.Parallel()
	control := fakellama.NewControl(t)
	control.Step(1)
	r, _ := newServingRig(t, fakellama.Config{Control: control.Path(), GateTokens: true})
	answered := r.ask("tiny")
	r.await("the request in hand", func() bool { return r.deployment("tiny").Busy == 1 })
	r.wants(schedule.Availability{Mode: schedule.Paused})
	r.awaitMachine("draining")
	control.Open()
	if run := <-answered; run.State != tasks.Succeeded || run.Attempt > 1 {
		t.Errorf("the run: %+v", run)
	}
	r.awaitMachine("paused (by owner)")
}

func TestTheMachineIsKeptAwakeOnlyWhileItAnswers(t *testing.T) {
	t.Parallel()
	control := fakellama.NewControl(t)
	control.Step(1)
	r, _ := newServingRig(t, fakellama.Config{Control: control.Path(), GateTokens: true})
	locks := func() int { r.night.mu.Lock(); defer r.night.mu.Unlock(); return r.night.locks }
	if locks() != 0 {
		t.Error("an idle machine is kept awake")
	}
	answered := r.ask("tiny")
	r.await("the lock", func() bool { return locks() == 1 && r.agent.Status(context.Background()).Awake.Held })
	control.Open()
	<-answered
	r.await("its end", func() bool { return locks() == 0 && !r.agent.Status(context.Background()).Awake.Held })

	r.night.set(func(s *sitting) { s.refuse = errNoLock })
	<-r.ask("tiny")
	r.await("the refusal is reported", func() bool {
		return slices.Contains(r.machine().Warnings, "the machine is not wholly kept awake while a task runs: logind says no")
	})
	if got := r.agent.Status(t.Context()).Awake; got != (localapi.Awake{Refused: "logind says no"}) {
		t.Errorf("the owner sees %+v", got)
	}
}

func TestDownloadsStopInTheOwnersBandwidthHours(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{}, onFakeTime)
	r.start()
	r.awaitMachine("idle")
	allDay := schedule.Span{Start: "00:00", End: "24:00"}
	r.wants(schedule.Availability{Bandwidth: []schedule.Bandwidth{{Span: allDay}}})
	r.plane.Deploy(nil, r.group, "tiny", 1)
	d := r.awaitWords("tiny", "downloading: stopped by the owner's bandwidth hours")
	if d.Downloaded != 0 {
		t.Errorf("it has %d bytes", d.Downloaded)
	}
	r.wants(schedule.Availability{Bandwidth: []schedule.Bandwidth{{Span: allDay, BytesPerSecond: 1 << 20}}})
	r.awaitWords("tiny", "ready")
}

func TestTheHoursOutliveReenrollment(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{}, inZone("Europe/Berlin", "12:00"))
	r.start()
	r.wants(schedule.Availability{Mode: schedule.Window, Windows: []schedule.Span{{Start: "20:00", End: "21:00"}}, OnMains: true})
	r.stop()
	before, err := os.ReadFile(ownerPath(r.e.Dir()))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := r.home.Enroll(t.Context(), r.request); err != nil || !res.Kept {
		t.Fatalf("enroll again: %+v, %v", res, err)
	}
	after, err := os.ReadFile(ownerPath(r.e.Dir()))
	if err != nil || !bytes.Equal(before, after) || !strings.Contains(string(after), `"schema":2`) {
		t.Errorf("owner.json was %s and is %s, %v", before, after, err)
	}
	r.start()
	r.awaitMachine("paused (by owner until 20:00)")
}

func TestTheNewsOfTheUpdaterArePassedOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{})
	news := &fleet.UpdateReport{State: "reverted", Version: "1.2.0", Why: "no heartbeat", At: time.Unix(1, 0).UTC()}
	r.night.update = news
	r.start()
	r.awaitMachine("idle")
	if got := r.machine().Update; got == nil || *got != *news {
		t.Errorf("the control plane has %+v", got)
	}
	if got := r.agent.Status(t.Context()).Update; got == nil || *got != *news {
		t.Errorf("the owner sees %+v", got)
	}
}
