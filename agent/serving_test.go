package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"interlock.sh/agent/localapi"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
	"interlock.sh/internal/testkit/fakellama"
)

func TestAMachineGoesFromDownloadingOverLoadingToReady(t *testing.T) {
	t.Parallel()
	control := fakellama.NewControl(t)
	r := newRig(t, fakellama.Config{Control: control.Path(), GateLoad: true})
	passed := make(chan struct{})
	r.road.rules(func(_ http.ResponseWriter, req *http.Request) bool {
		if strings.HasPrefix(req.URL.Path, "/api/blobs/") {
			<-passed
		}
		return false
	})
	r.start()
	r.awaitMachine("idle")
	d := r.plane.Deploy(nil, r.group, "tiny", 1)
	r.awaitMachine("downloading")
	if got := r.deployment("tiny"); got.Total == 0 || got.Downloaded >= got.Total || got.Pid != 0 {
		t.Errorf("while downloading: %+v", got)
	}
	close(passed)
	r.awaitMachine("loading")
	control.FinishLoad()
	m := r.awaitMachine("ready")
	got := m.Deployments[0]
	if got.ID != d.ID || got.Slots != 2 || got.Busy != 0 || got.Pid == 0 || got.ReadySince == nil || got.MemoryBytes == nil || got.Total != 0 {
		t.Errorf("when ready: %+v", got)
	}
	r.await("facts of the model server", func() bool { return r.agent.Report(context.Background()).Server != nil })
	// What is not known is absent, never a zero.
	b, err := json.Marshal(got)
	if err != nil || strings.Contains(string(b), "tokensPerSecond") || strings.Contains(string(b), "lastError") {
		t.Errorf("unknown figures are there: %s, %v", b, err)
	}
	if pools := r.workerPools(); !slices.Equal(pools, []string{fleet.Pool(d.ID)}) {
		t.Errorf("it claims from %v", pools)
	}
}

// workerPools are the pools of the machine's registration, as the control plane has it.
func (r *rig) workerPools() []string {
	r.Helper()
	all, err := r.plane.Owner.TaskWorkers(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	for _, w := range all {
		if w.WorkerID == r.e.Machine {
			return w.Pools
		}
	}
	return nil
}

func TestARetiredDeploymentDrainsWhileAnotherStarts(t *testing.T) {
	t.Parallel()
	control := fakellama.NewControl(t)
	r := newRig(t, fakellama.Config{})
	r.useServer(serverByAlias(t, "old", fakellama.Install(t, fakellama.Config{Control: control.Path(), GateTokens: true}), fakellama.Install(t, fakellama.Config{})))
	control.Step(1) // for the probe
	r.start()
	old, stays := r.plane.Deploy(nil, r.group, "old", 1), r.plane.Deploy(nil, r.group, "stays", 2)
	pid := r.awaitWords("stays", "ready").Pid
	r.awaitWords("old", "ready")
	answered := r.ask("old")
	r.await("the request in hand", func() bool { return r.deployment("old").Busy == 1 })
	if _, err := r.plane.Owner.RetireDeployment(t.Context(), r.group.ID, "old"); err != nil {
		t.Fatal(err)
	}
	r.awaitWords("old", "draining")
	r.await("no claims for it", func() bool { return !slices.Contains(r.workerPools(), fleet.Pool(old.ID)) })
	fresh := r.plane.Deploy(nil, r.group, "fresh", 3)
	r.awaitWords("fresh", "ready")
	if got := r.deployment("old"); got.State.Kind != fleet.StateDraining || got.Busy != 1 {
		t.Errorf("while the other started, the old one became %+v", got)
	}
	control.Open()
	if run := <-answered; run.Answer == nil || *run.Answer != "Hello, world." {
		t.Errorf("the answer in hand was lost: %+v", run)
	}
	want := []string{stays.ID, fresh.ID}
	slices.Sort(want)
	r.await("the old folder gone", func() bool { return r.deployment("old").ID == "" && slices.Equal(r.versions(), want) })
	if got := r.deployment("stays"); got.Pid != pid || got.State.Kind != fleet.StateReady {
		t.Errorf("the one that stays is another: %+v", got)
	}
	blobs, err := filepath.Glob(filepath.Join(r.home.Blobs(), strings.Repeat("?", 64)))
	if err != nil || len(blobs) != 3 {
		t.Errorf("the cache has %d files, want all 3: %v", len(blobs), err)
	}
}

// serverByAlias is one program that serves the alias, and another that serves everything else.
func serverByAlias(t *testing.T, alias, its, others string) string {
	t.Helper()
	return installScript(t, fmt.Sprintf("case \"$*\" in *'--alias %s '*) exec '%s' \"$@\";; esac\nexec '%s' \"$@\"", alias, its, others))
}

func TestAChangeOfSettingsRestartsOnlyThatModel(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{})
	r.start()
	r.plane.Deploy(nil, r.group, "one", 1)
	r.plane.Deploy(nil, r.group, "two", 2)
	one, two := r.awaitWords("one", "ready").Pid, r.awaitWords("two", "ready").Pid
	_, err := r.plane.Owner.Deploy(t.Context(), r.group.ID, fleet.NewDeploymentRequest{Release: "of-one", Alias: "one", Settings: fleet.SettingsChange{Slots: new(3)}})
	if err != nil {
		t.Fatal(err)
	}
	r.await("three slots", func() bool { d := r.deployment("one"); return d.Slots == 3 && d.State.Kind == fleet.StateReady })
	if got := r.deployment("one").Pid; got == one {
		t.Error("the changed model was not restarted")
	}
	if got := r.deployment("two").Pid; got != two {
		t.Error("the other model was restarted")
	}
}

func TestModesAndTheirWords(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{})
	r.start()
	r.plane.Deploy(nil, r.group, "tiny", 1)
	r.awaitMachine("ready")
	door := r.door()
	owner := func(m fleet.Mode) func() {
		return func() {
			if _, err := door.SetOwner(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
	}
	server := func(action string) func() {
		return func() {
			verbs := map[string]string{"pause": "pause", "resume": "resume", "drain": "drain"}
			if err := r.plane.Owner.Do(t.Context(), http.MethodPost, "/api/machines/"+r.e.Machine+"/"+verbs[action], nil, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, step := range []struct {
		name   string
		do     func()
		words  string
		models int
	}{
		{"the server pauses", server("pause"), "paused (by server)", 0},
		{"the owner pauses too", owner(fleet.Paused), "paused (by owner)", 0},
		{"the server resumes: the owner's pause holds", server("resume"), "paused (by owner)", 0},
		{"the owner drains: models are loaded, nothing is claimed", owner(fleet.Draining), "draining", 1},
		{"the server pauses: the stricter wins", server("pause"), "paused (by server)", 0},
		{"the server drains", server("drain"), "draining", 1},
		{"the owner resumes: the server's drain holds", owner(fleet.Active), "draining", 1},
		{"the server resumes", server("resume"), "ready", 1},
	} {
		step.do()
		r.await(step.name, func() bool {
			st, err := door.Status(context.Background())
			serving := 0
			for _, d := range st.Report.Deployments {
				if d.State.Serving() {
					serving++
				}
			}
			return err == nil && st.Words == step.words && serving == step.models
		})
		if got := len(r.versions()); got != 1 {
			t.Errorf("%s: the installation is gone", step.name)
		}
	}
	r.awaitMachine("ready")
}

func TestAnOwnersPauseOutlivesTheAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{})
	r.start()
	r.plane.Deploy(nil, r.group, "tiny", 1)
	r.awaitMachine("ready")
	if err := r.agent.SetOwner(fleet.Paused); err != nil {
		t.Fatal(err)
	}
	r.awaitMachine("paused (by owner)")
	r.stop()
	r.start()
	r.awaitMachine("paused (by owner)")
	r.stop()
	// What cannot be read is taken for the stricter wish.
	if err := os.WriteFile(ownerPath(r.e.Dir()), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.awaitMachine("paused (by owner: the hours in owner.json cannot be read: unexpected end of JSON input; set them again)")
	if err := r.agent.SetOwner("asleep"); err == nil {
		t.Error("a mode that is none was taken")
	}
	r.wants(schedule.Availability{Mode: schedule.Always})
	r.awaitMachine("ready")
}

func TestARoleOrRuntimeThatCannotRunIsShownAndClaimsNothing(t *testing.T) {
	t.Parallel()
	for words, option := range map[string]rigOption{
		"unsupported: role trainer needs a newer agent": asTrainer, "unsupported: runtime mlx-lm needs a newer agent": withMLX,
	} {
		t.Run(words, func(t *testing.T) {
			r := newRig(t, fakellama.Config{}, option)
			r.start()
			r.awaitMachine(words)
			r.plane.Deploy(nil, r.group, "tiny", 1)
			before := r.road.times("POST /api/machine/heartbeat")
			r.agent.poke()
			r.await("another heartbeat", func() bool { return r.road.times("POST /api/machine/heartbeat") > before })
			if all, err := r.plane.Owner.TaskWorkers(t.Context()); err != nil || len(all) != 0 {
				t.Errorf("it registered as a worker: %v, %v", all, err)
			}
			if got := r.versions(); len(got) != 0 {
				t.Errorf("it prepared %v", got)
			}
			for _, c := range Doctor(t.Context(), r.e, "test") {
				if c.Name == "llama-server" {
					t.Error("doctor looks for a program that this role does not use")
				}
			}
			r.stop()
			if m, err := r.plane.Owner.Machine(t.Context(), r.e.Machine); err != nil || m.Machine.State.Kind != fleet.StateOffline {
				t.Errorf("an agent that was stopped is shown as %s, %v", m.Machine.State, err)
			}
		})
	}
}

// find is one line of a doctor's report.
func find(t *testing.T, all []localapi.Check, name string) localapi.Check {
	t.Helper()
	for _, c := range all {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("doctor has no line %q in %+v", name, all)
	return localapi.Check{}
}
