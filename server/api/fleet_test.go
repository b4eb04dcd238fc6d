package api_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"interlock.sh/ai"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	kit "interlock.sh/internal/testkit/plane"
)

func TestRotationStopsNewEnrollmentsOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.group.Keys[fleet.RoleClient]
	if _, err := w.mine.RotateGroupKey(t.Context(), w.group.ID, fleet.RoleClient); err != nil {
		t.Fatal(err)
	}
	req := fleet.EnrollRequest{Group: w.group.ID, Role: fleet.RoleClient, Name: "late"}
	w.refused("the old key", w.call("POST", "/api/machine/enroll", old, req), fault.Revoked, "")
	w.machine.Beat(fleet.State{Kind: fleet.StateReady})
	if _, err := w.machine.DesiredState(t.Context()); err != nil {
		t.Errorf("a machine that enrolled before: %v", err)
	}
	req.Role = fleet.RoleTrainer
	if got := w.call("POST", "/api/machine/enroll", w.creds["trainer"], req); got.status != 200 {
		t.Errorf("the other role's key went with it: %d %s", got.status, got.body)
	}
	keys, err := w.mine.GroupKeys(t.Context(), w.group.ID)
	if err != nil {
		t.Fatal(err)
	}
	live := 0
	for _, k := range keys {
		if k.RevokedAt == nil {
			live++
		}
		if k.Prefix == "" || strings.Contains(k.Prefix, old[10:]) {
			t.Errorf("a listed key shows %q", k.Prefix)
		}
	}
	if live != 2 || len(keys) != 5 { // 2 first, 2 of newWorld, 1 here
		t.Errorf("%d keys, %d of them live", len(keys), live)
	}
}

// The pasted line is whole: server, group, role and key, for the address that was made public.
func TestTheLineIsWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g, err := w.mine.RegisterGroup(t.Context(), fleet.NewGroupRequest{Name: "Größe; rm -rf ~ 'x' $(x)"})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range g.Keys {
		for _, part := range []string{w.URL + "/assets/install-model-host.sh", "--group " + g.Group.ID, "--role " + string(k.Role), k.Key} {
			if !strings.Contains(k.Line, part) {
				t.Errorf("the line %q has no %q", k.Line, part)
			}
		}
		if strings.Contains(k.Line, "$(x)") {
			t.Errorf("the name got into the line: %s", k.Line)
		}
	}
	rotated, err := w.mine.RotateGroupKey(t.Context(), "Größe; rm -rf ~ 'x' $(x)", fleet.RoleTrainer)
	if err != nil || !strings.Contains(rotated.Line, rotated.Key) || !strings.Contains(rotated.Line, g.Group.ID) {
		t.Errorf("rotated by name: %+v %v", rotated, err)
	}
}

func TestACopiedStateFolder(t *testing.T) {
	t.Parallel()
	report := func(m *kit.Machine, instance, host string) fleet.Heartbeat {
		hb := m.Report(fleet.State{Kind: fleet.StateReady})
		hb.Instance, hb.HostID, hb.Host.Hostname = instance, host, host
		return hb
	}
	t.Run("on another computer", func(t *testing.T) {
		w := newWorld(t)
		m := w.Enroll(w.group, fleet.RoleClient, "original")
		if _, err := m.Heartbeat(t.Context(), report(m, "a", "host-of-original")); err != nil {
			t.Fatal(err)
		}
		w.refused("the copy", w.call("POST", "/api/machine/heartbeat", m.Credential, report(m, "b", "laptop")), fault.Conflict, "")
		w.conflict(m, "laptop")
		if _, err := m.Heartbeat(t.Context(), report(m, "a", "host-of-original")); err != nil {
			t.Errorf("the original is refused too: %v", err)
		}
		w.conflict(m, "laptop") // visible while the copy lives
		w.clock.Advance(fleet.SeenFor + time.Second)
		if _, err := m.Heartbeat(t.Context(), report(m, "a", "host-of-original")); err != nil {
			t.Fatal(err)
		}
		if got, err := w.mine.Machine(t.Context(), m.ID); err != nil || got.Machine.State.Kind != fleet.StateReady {
			t.Errorf("after the copy went: %v %v", got.Machine.State, err)
		}
	})
	t.Run("on the same computer", func(t *testing.T) {
		w := newWorld(t)
		m := w.Enroll(w.group, fleet.RoleClient, "original")
		for _, instance := range []string{"a", "b"} { // b may be a restart of a
			if _, err := m.Heartbeat(t.Context(), report(m, instance, "host-of-original")); err != nil {
				t.Fatal(err)
			}
		}
		w.refused("a comes back: both live", w.call("POST", "/api/machine/heartbeat", m.Credential, report(m, "a", "host-of-original")), fault.Conflict, "")
		w.conflict(m, "host-of-original")
	})
	t.Run("restarts are none", func(t *testing.T) {
		w := newWorld(t)
		m := w.Enroll(w.group, fleet.RoleClient, "original")
		for _, instance := range []string{"a", "a", "b", "b", "c", "d"} {
			if _, err := m.Heartbeat(t.Context(), report(m, instance, "host-of-original")); err != nil {
				t.Errorf("instance %s: %v", instance, err)
			}
		}
		w.clock.Advance(2 * fleet.SeenFor)
		if _, err := m.Heartbeat(t.Context(), report(m, "e", "another computer")); err != nil {
			t.Errorf("moved to another computer while the first is off: %v", err)
		}
	})
}

func (w *world) conflict(m *kit.Machine, host string) {
	w.t.Helper()
	got, err := w.mine.Machine(w.t.Context(), m.ID)
	if err != nil || got.Machine.State.Kind != fleet.StateBlocked || !strings.Contains(got.Machine.State.Detail, host) || !strings.Contains(got.Machine.State.Detail, "two computers") {
		w.t.Errorf("the conflict is not to be seen: %v %v", got.Machine.State, err)
	}
}

func TestMachineStatesInWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	state := func(id string) string {
		t.Helper()
		got, err := w.mine.Machine(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return got.Machine.State.String()
	}
	fresh, err := w.Client(w.creds["client"]).Enroll(t.Context(), fleet.EnrollRequest{Group: w.group.ID, Role: fleet.RoleClient, Name: "fresh"})
	if err != nil {
		t.Fatal(err)
	}
	if got := state(fresh.Machine); got != "enrolling" {
		t.Errorf("never seen: %q", got)
	}
	for _, c := range []struct {
		state fleet.State
		want  string
	}{
		{fleet.State{Kind: fleet.StateIdle}, "idle"},
		{fleet.State{Kind: fleet.StateDownloading}, "downloading"},
		{fleet.State{Kind: fleet.StateLoading}, "loading"},
		{fleet.State{Kind: fleet.StateReady}, "ready"},
		{fleet.State{Kind: fleet.StateFull}, "full"},
		{fleet.State{Kind: fleet.StatePaused, Detail: "by owner until 18:00"}, "paused (by owner until 18:00)"},
		{fleet.State{Kind: fleet.StateBlocked, Detail: "disk"}, "blocked: disk"},
		{fleet.State{Kind: fleet.StateParked, Detail: "crashed 5 times"}, "parked: crashed 5 times"},
		{fleet.State{Kind: fleet.StateUnsupported, Detail: "runtime mlx-lm"}, "unsupported: runtime mlx-lm"},
	} {
		w.machine.Beat(c.state)
		if got := state(w.machine.ID); got != c.want {
			t.Errorf("%+v reads %q", c.state, got)
		}
	}
	w.machine.Serve(w.deployment, 1)
	for _, step := range []struct {
		action client.MachineAction
		mode   fleet.Mode
		now    string // before the machine has acted on it
		report fleet.State
		then   string
	}{
		{client.MachinePause, fleet.Paused, "draining", fleet.State{Kind: fleet.StatePaused, Detail: fleet.PausedByServer}, "paused (by server)"},
		{client.MachineResume, fleet.Active, "paused (by server)", fleet.State{Kind: fleet.StateReady}, "ready"},
		{client.MachineDrain, fleet.Draining, "draining", fleet.State{Kind: fleet.StateDraining}, "draining"},
		{client.MachineResume, fleet.Active, "draining", fleet.State{Kind: fleet.StateReady}, "ready"},
	} {
		before, err := w.machine.DesiredState(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m, err := w.mine.ActOnMachine(t.Context(), w.machine.ID, step.action)
		if err != nil || m.Mode != step.mode || m.State.String() != step.now {
			t.Errorf("%s: mode %s, state %s, %v", step.action, m.Mode, m.State, err)
		}
		after, err := w.machine.DesiredState(t.Context())
		if err != nil || after.Mode != step.mode || after.Version <= before.Version {
			t.Errorf("%s: desired %s, version %d after %d, %v", step.action, after.Mode, after.Version, before.Version, err)
		}
		w.machine.Beat(step.report)
		if got := state(w.machine.ID); got != step.then {
			t.Errorf("%s acted on: %q", step.action, got)
		}
		if _, err := w.mine.ActOnMachine(t.Context(), w.machine.ID, step.action); err != nil {
			t.Error("again:", err)
		}
		if again, err := w.machine.DesiredState(t.Context()); err != nil || again.Version != after.Version {
			t.Errorf("%s again made a new version", step.action)
		}
	}
	w.clock.Advance(fleet.SeenFor)
	if got := state(w.machine.ID); got != "ready" {
		t.Errorf("after 90 s: %q", got)
	}
	w.clock.Advance(time.Second)
	if got := state(w.machine.ID); got != "offline" {
		t.Errorf("after 91 s: %q", got)
	}
}

// Telemetry that a machine does not know is absent, never 0; a day of it is kept.
func TestTelemetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.Enroll(w.group, fleet.RoleClient, "meter")
	got := w.call("GET", "/api/machines/"+m.ID+"?project=mine", w.creds["account"], nil)
	for _, unknown := range []string{"memoryFree", "memoryTotal", "tokensPerSecond", "gpus", "diskFree", "cores", `"server"`} {
		if strings.Contains(got.body, unknown) {
			t.Errorf("%s is unknown and stands there: %s", unknown, got.body)
		}
	}
	free, speed := int64(0), 12.5
	hb := m.Report(fleet.State{Kind: fleet.StateReady}, fleet.DeploymentReport{ID: "d", State: fleet.State{Kind: fleet.StateReady}, Slots: 2, Busy: 1, TokensPerSecond: &speed},
		fleet.DeploymentReport{ID: "e", State: fleet.State{Kind: fleet.StateBlocked, Detail: "memory"}, Slots: 8}) // gives no slot
	hb.Host.MemoryFree = &free // known, and none
	for range 3 {
		w.clock.Advance(10 * time.Second)
		if _, err := m.Heartbeat(t.Context(), hb); err != nil {
			t.Fatal(err)
		}
	}
	detail, err := w.mine.Machine(t.Context(), m.ID)
	if err != nil || len(detail.Samples) != 4 {
		t.Fatalf("%d samples, %v", len(detail.Samples), err)
	}
	first, last := detail.Samples[0], detail.Samples[3]
	if first.TokensPerSecond != nil || first.MemoryFree != nil {
		t.Errorf("the first sample knows too much: %+v", first)
	}
	if last.TokensPerSecond == nil || *last.TokensPerSecond != speed || last.MemoryFree == nil || *last.MemoryFree != 0 || last.Busy != 1 || last.Slots != 2 || !first.At.Before(last.At) {
		t.Errorf("the last sample: %+v", last)
	}
	w.clock.Advance(24 * time.Hour)
	m.Beat(fleet.State{Kind: fleet.StateIdle})
	if detail, err = w.mine.Machine(t.Context(), m.ID); err != nil || len(detail.Samples) != 2 { // exactly a day old, and now
		t.Errorf("%d samples after a day, %v", len(detail.Samples), err)
	}
}

// What a machine can make the server keep is bounded.
func TestAReportIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("ä", 5000)
	hb := w.machine.Report(fleet.State{Kind: fleet.StateBlocked, Detail: long})
	for range 200 {
		hb.Warnings = append(hb.Warnings, long[:1000])
	}
	d := fleet.DeploymentReport{ID: "d", State: fleet.State{Kind: fleet.StateParked, Detail: long}, LastError: long}
	for range 300 {
		d.Log = append(d.Log, "line")
	}
	d.Log = append(d.Log, long)
	hb.Deployments = []fleet.DeploymentReport{d}
	hb.Host.CPU, hb.Host.Hostname = long, long
	hb.Hours = &fleet.Hours{Mode: long, Why: long}
	hb.Update = &fleet.UpdateReport{State: long, Version: long, Why: long}
	if _, err := w.machine.Heartbeat(t.Context(), hb); err != nil {
		t.Fatal(err)
	}
	got, err := w.mine.Machine(t.Context(), w.machine.ID)
	if err != nil {
		t.Fatal(err)
	}
	m := got.Machine
	if len(m.Host.CPU) > 210 || len(m.Host.Hostname) > 210 {
		t.Errorf("host facts of %d and %d bytes", len(m.Host.CPU), len(m.Host.Hostname))
	}
	if h, u := m.Hours, m.Update; len(h.Mode) > 210 || len(h.Why) > 510 || len(u.State) > 210 || len(u.Version) > 210 || len(u.Why) > 510 {
		t.Errorf("hours of %d and %d bytes, an update of %d, %d and %d", len(h.Mode), len(h.Why), len(u.State), len(u.Version), len(u.Why))
	}
	r := m.Deployments[0]
	if len(m.State.Detail) > 510 || len(m.Warnings) != 20 || len(r.LastError) > 510 || len(r.Log) != 100 || len(r.Log[99]) > 1040 || r.Log[98] != "line" {
		t.Errorf("kept: detail %d, warnings %d, error %d, log %d of %d", len(m.State.Detail), len(m.Warnings), len(r.LastError), len(r.Log), len(r.Log[99]))
	}
	if !strings.HasSuffix(m.State.Detail, "ä…") {
		t.Errorf("cut inside a character: %q", m.State.Detail[490:])
	}
	w.refused("no instance", w.call("POST", "/api/machine/heartbeat", w.machine.Credential, fleet.Heartbeat{}), fault.Invalid, "instance")
}

// A change of the owner's hours or of the updater's news is hinted at at once; the same again is not.
func TestHoursAndUpdatesAreHintedAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	beat := func(h *fleet.Hours, u *fleet.UpdateReport) {
		t.Helper()
		hb := w.machine.Report(fleet.State{Kind: fleet.StatePaused, Detail: "by owner until 22:00"})
		hb.Hours, hb.Update = h, u
		if _, err := w.machine.Heartbeat(t.Context(), hb); err != nil {
			t.Fatal(err)
		}
	}
	next, later := noon.Add(time.Hour), noon.Add(2*time.Hour)
	beat(&fleet.Hours{Mode: "night", Next: &next}, nil)
	events, err := w.mine.Stream(t.Context(), "/api/events", "")
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close() //nolint:errcheck // read only
	want := func(kinds ...string) {
		t.Helper()
		for left := slices.Clone(kinds); len(left) > 0; {
			e, err := events.Next()
			if err != nil {
				t.Fatal(err)
			}
			i := slices.Index(left, e.Event)
			if i < 0 {
				t.Fatalf("event %q, wanted %v", e.Event, left)
			}
			left = slices.Delete(left, i, i+1)
		}
	}
	beat(&fleet.Hours{Mode: "night", Next: &later}, nil)
	want("machines", "runs")
	beat(&fleet.Hours{Mode: "night", Next: &later}, nil)
	beat(&fleet.Hours{Mode: "night", Next: &later}, &fleet.UpdateReport{State: "staged", Version: "2.0.0"})
	want("machines")
	beat(nil, &fleet.UpdateReport{State: "staged", Version: "2.0.0"})
	want("machines", "runs")
}

// The version of the desired state grows with everything that changes it, and a machine is woken.
func TestDesiredState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	events, err := w.machine.Stream(ctx, "/api/workers/events", "")
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close() //nolint:errcheck // read only
	version := func() fleet.Desired {
		t.Helper()
		d, err := w.machine.DesiredState(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	last := version().Version
	grown := func(what string, deployments int) fleet.Desired {
		t.Helper()
		for {
			e, err := events.Next()
			if err != nil {
				t.Fatal(what, err)
			}
			if e.Event == "desired" {
				break
			}
		}
		d := version()
		if d.Version <= last || len(d.Deployments) != deployments {
			t.Errorf("%s: version %d after %d, %d deployments", what, d.Version, last, len(d.Deployments))
		}
		last = d.Version
		resp, err := w.machine.Heartbeat(ctx, w.machine.Report(fleet.State{Kind: fleet.StateReady}))
		if err != nil || resp.DesiredVersion != last {
			t.Errorf("%s: the heartbeat says version %d, %v", what, resp.DesiredVersion, err)
		}
		return d
	}
	if _, err := w.mine.Deploy(ctx, w.group.ID, fleet.NewDeploymentRequest{Release: "of-tiny", Alias: "tuned", Settings: fleet.SettingsChange{ContextLength: new(512), Threads: new(2), GPULayers: new(3), Args: []string{"--flag"}}}); err != nil {
		t.Fatal(err)
	}
	ds := grown("deploy", 2).Deployments
	d := ds[slices.IndexFunc(ds, func(d fleet.DesiredDeployment) bool { return d.Alias != "tiny" })]
	if d.Alias != "tuned" || d.ContextLength != 512 || d.Slots != 2 || d.Threads != 2 || *d.GPULayers != 3 || len(d.Args) != 1 || len(d.Files) != 1 {
		t.Errorf("release and settings merged: %+v", d)
	}
	if _, err := w.mine.SetChannel(ctx, w.group.ID, "stable", fleet.SetChannelRequest{Alias: "tuned"}); err != nil {
		t.Fatal(err)
	}
	w.refused("retire what a channel points at", w.call("DELETE", "/api/models/groups/"+w.group.ID+"/deployments/tuned?project=mine", w.creds["account"], nil), fault.Conflict, "")
	if _, err := w.mine.RetireDeployment(ctx, w.group.ID, "tiny"); err != nil {
		t.Fatal(err)
	}
	grown("retire", 1)
	w.refused("channel at a retired one", w.call("PUT", "/api/models/groups/"+w.group.ID+"/channels/stable?project=mine", w.creds["account"], fleet.SetChannelRequest{Alias: "tiny"}), fault.Conflict, "alias")
	if _, err := w.mine.ActOnMachine(ctx, w.machine.ID, client.MachinePause); err != nil {
		t.Fatal(err)
	}
	if got := grown("pause", 1); got.Mode != fleet.Paused {
		t.Errorf("mode %s", got.Mode)
	}
	trainer, err := w.trainer.DesiredState(ctx)
	if err != nil || len(trainer.Deployments) != 0 || trainer.Version != 1 {
		t.Errorf("a trainer: %+v %v", trainer, err)
	}
}

// A group's only deployment can be taken down: its channel is removed first.
func TestRemovingAChannel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	if _, err := w.mine.SetChannel(ctx, w.group.ID, "stable", fleet.SetChannelRequest{Alias: "tiny"}); err != nil {
		t.Fatal(err)
	}
	path := "/api/models/groups/" + w.group.ID
	held := w.call("DELETE", path+"/deployments/tiny?project=mine", w.creds["account"], nil)
	w.refused("retire what a channel points at", held, fault.Conflict, "")
	if !strings.Contains(held.err.Hint, "interlock models channel rm stable") {
		t.Errorf("the hint names no way out: %q", held.err.Hint)
	}
	w.refused("a channel that is not there", w.call("DELETE", path+"/channels/beta?project=mine", w.creds["account"], nil), fault.NotFound, "channel")
	if c, err := w.mine.RemoveChannel(ctx, w.group.Name, "stable"); err != nil || c.Name != "stable" || c.Alias != "tiny" {
		t.Fatalf("removed %+v, %v", c, err)
	}
	w.refused("again", w.call("DELETE", path+"/channels/stable?project=mine", w.creds["account"], nil), fault.NotFound, "channel")
	st, err := w.mine.GroupStatus(ctx, w.group.ID)
	if err != nil || len(st.Channels) != 0 || len(st.Deployments) != 1 || st.Deployments[0].RetiredAt != nil {
		t.Errorf("left: %+v, %v", st, err)
	}
	w.refused("a run by the channel", w.call("POST", "/api/ai/runs", w.creds["sdk"], ai.RunRequest{Model: w.group.Name + "@stable", Prompt: "hi"}), fault.NotFound, "model")
	if _, err := w.mine.RetireDeployment(ctx, w.group.ID, "tiny"); err != nil {
		t.Error(err)
	}
}

// Two boxes may have one name; then only the id names one. Two enrollments at once are two machines.
func TestMachinesOfOneName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := make(chan *kit.Machine, 2)
	for range 2 {
		go func() { got <- w.Enroll(w.group, fleet.RoleClient, "twin") }()
	}
	one, two := <-got, <-got
	if one.ID == two.ID || one.Credential == two.Credential {
		t.Fatal("two enrollments are one machine")
	}
	w.refused("by the name", w.call("POST", "/api/machines/twin/pause?project=mine", w.creds["account"], nil), fault.Invalid, "machine")
	if m, err := w.mine.ActOnMachine(t.Context(), one.ID, client.MachinePause); err != nil || m.ID != one.ID {
		t.Error(err)
	}
	if m, err := w.mine.ActOnMachine(t.Context(), two.ID, client.MachineRevoke); err != nil || m.ID != two.ID {
		t.Error(err)
	}
	if m, err := w.mine.Machine(t.Context(), "twin"); err != nil || m.Machine.ID != one.ID {
		t.Errorf("the one that is left, by its name: %s %v", m.Machine.ID, err)
	}
}
