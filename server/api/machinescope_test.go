package api_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"testing"

	"interlock.sh/access"
	"interlock.sh/ai"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/tasks"
)

// The credential of one machine against everything of another: a neighbour of its own group, a machine
// of another group, of the other role, of another project.
func TestAMachineCannotActAsAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run("hello")
	held := w.machine.Take()
	w.machine.Begin(held).Say("some words")
	var input ai.ChatInput
	if err := json.Unmarshal(held.Input, &input); err != nil {
		t.Fatal(err)
	}
	private := w.NewGroup(w.mine, "Other models")
	secret := w.Deploy(w.mine, private, "secret", 2)
	foreign := w.NewGroup(w.theirs, "Their models")
	others := map[string]string{
		"a neighbour":               w.Enroll(w.group, fleet.RoleClient, "neighbour").Credential,
		"a trainer of the group":    w.trainer.Credential,
		"a machine of a group":      w.Enroll(private, fleet.RoleClient, "private").Credential,
		"a machine of a project":    w.Enroll(foreign, fleet.RoleClient, "foreign").Credential,
		"a worker key":              w.creds["task-worker"],
		"a worker key of a project": w.creds["their task-worker"],
	}
	asOther := map[string]any{"workerId": w.machine.ID, "maxConcurrent": 1, "running": 0, "handlers": []tasks.Handler{{Type: ai.ChatType, SchemaVersion: 1, EffectSafety: tasks.Pure}}}
	for who, credential := range others {
		// By the worker id.
		for name, call := range map[string]reply{
			"register":   w.call("POST", "/api/workers/register", credential, asOther),
			"claim":      w.call("POST", "/api/workers/claim", credential, tasks.ClaimRequest{WorkerID: w.machine.ID, Max: 1}),
			"renew":      w.call("POST", "/api/workers/renew", credential, tasks.RenewRequest{WorkerID: w.machine.ID, Attempts: []tasks.Ref{held.Ref}}),
			"unregister": w.call("DELETE", "/api/workers/"+w.machine.ID, credential, nil),
		} {
			w.refused(who+": "+name+" as the other", call, fault.ScopeDenied, "")
		}
		// By the attempt, its fence and its token, had they leaked.
		for name, got := range map[string]reply{
			"progress": w.call("POST", "/api/workers/progress", credential, tasks.ProgressReport{Ref: held.Ref}),
			"log":      w.call("POST", "/api/workers/log", credential, tasks.LogReport{Ref: held.Ref, Lines: []tasks.LogLine{{Level: "info", Line: "x"}}}),
			"delta":    w.call("POST", "/api/workers/delta", credential, tasks.DeltaReport{Ref: held.Ref, Offset: 0, Text: "x"}),
			"fail":     w.call("POST", "/api/workers/fail", credential, tasks.FailReport{Ref: held.Ref, Failure: tasks.Failure{Code: "X", Message: "x"}}),
			"unknown":  w.call("POST", "/api/workers/unknown", credential, tasks.UnknownReport{Ref: held.Ref, Reason: "x"}),
		} {
			if c := got.err.Code; c != fault.StaleAttempt && c != fault.ScopeDenied && c != fault.NotFound {
				t.Errorf("%s may report %s of the other's attempt: %d %s", who, name, got.status, got.body)
			}
		}
		done := w.call("POST", "/api/workers/complete", credential, tasks.CompleteRequest{Completions: []tasks.Completion{{Ref: held.Ref, Result: json.RawMessage(`{}`)}}})
		var out tasks.CompleteResponse
		if done.status == 200 && (json.Unmarshal([]byte(done.body), &out) != nil || len(out.Outcomes) != 1 || out.Outcomes[0].Error == nil) {
			t.Errorf("%s may complete the other's attempt: %s", who, done.body)
		}
		// By a pool that is not its own.
		for _, pool := range []string{fleet.Pool(secret.ID), fleet.Pool("dep_nothing")} {
			if who == "a machine of a group" && pool == fleet.Pool(secret.ID) {
				continue
			}
			id := "w1"
			var self access.Whoami
			if got := w.call("GET", "/api/whoami", credential, nil); json.Unmarshal([]byte(got.body), &self) == nil && self.Machine != "" {
				id = self.Machine
			}
			w.refused(who+" serves "+pool, w.call("POST", "/api/workers/register", credential, tasks.RegisterRequest{
				WorkerID: id, MaxConcurrent: 1, Pools: []string{pool}, Handlers: []tasks.Handler{{Type: ai.ChatType, SchemaVersion: 1, EffectSafety: tasks.Pure}},
			}), fault.ScopeDenied, "pools")
		}
	}
	for who, credential := range others {
		w.refused(who+" reads the request", w.call("GET", "/api/blobs/"+input.Request.SHA256, credential, nil), fault.ChecksumUnknown, "")
	}
	// The weights are for the machines that are to serve them.
	weights := w.mineFile().SHA256
	for who, may := range map[string]bool{"a neighbour": true, "a trainer of the group": false, "a machine of a group": false, "a machine of a project": false} {
		got := w.call("GET", "/api/blobs/"+weights, others[who], nil)
		if may != (got.status == 200) {
			t.Errorf("%s reads the weights: %d", who, got.status)
		}
	}
	// The holder may, as long as it holds the run.
	if got := w.call("GET", "/api/blobs/"+input.Request.SHA256, w.machine.Credential, nil); got.status != 200 {
		t.Errorf("the holder reads the request: %d %s", got.status, got.body)
	}
	answer := w.machine.Begin(held)
	answer.Sent = int64(len(`{"delta":{"content":"some words"}}` + "\n"))
	if out := answer.Finish(2); out.Error != nil {
		t.Fatalf("the holder's own report: %+v", out.Error)
	}
	w.refused("the request after the run", w.call("GET", "/api/blobs/"+input.Request.SHA256, w.machine.Credential, nil), fault.ChecksumUnknown, "")
	sum := sha256.Sum256([]byte("nothing"))
	w.refused("bytes that are nowhere", w.call("GET", "/api/blobs/"+hex.EncodeToString(sum[:]), w.machine.Credential, nil), fault.ChecksumUnknown, "")
}

// What a machine is comes from its credential, whatever it reports.
func TestIdentityComesFromTheCredential(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lie := map[string]any{
		"instance": "first-of-gym", "version": "test", "desiredVersion": 1, "host": map[string]string{"hostname": "gym"}, "hostId": "host-of-gym", "machine": w.machine.ID, "id": w.machine.ID, "group": "other", "role": "client",
		"state": map[string]string{"kind": "ready"}, "deployments": []map[string]any{{"id": w.deployment.ID, "alias": "tiny", "state": map[string]string{"kind": "ready"}}},
	}
	if got := w.call("POST", "/api/machine/heartbeat", w.trainer.Credential, lie); got.status != 200 {
		t.Fatal(got.status, got.body)
	}
	m, err := w.mine.Machine(t.Context(), w.trainer.ID)
	if err != nil || m.Machine.Role != fleet.RoleTrainer || m.Machine.Group != w.group.ID {
		t.Errorf("the trainer is now %+v %v", m.Machine, err)
	}
	self, err := w.trainer.Self(t.Context())
	if err != nil || self.Role != fleet.RoleTrainer || self.Group != w.group.ID || self.Project != "mine" {
		t.Errorf("self %+v %v", self, err)
	}
	desired, err := w.trainer.DesiredState(t.Context())
	if err != nil || len(desired.Deployments) != 0 || desired.Machine != w.trainer.ID {
		t.Errorf("a trainer is told to serve: %+v %v", desired, err)
	}
	w.refused("a trainer serves a model", w.call("POST", "/api/workers/register", w.trainer.Credential, w.trainer.Registration(1, w.deployment)), fault.ScopeDenied, "pools")
}

// A revoked machine gets no work any more, not even by a claim that it parked before.
func TestARevokedMachineIsOutAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	parked := make(chan error, 1)
	claim := make(chan tasks.ClaimResponse, 1)
	go func() {
		got, err := w.machine.ClaimTasks(t.Context(), tasks.ClaimRequest{WorkerID: w.machine.ID, Max: 1, WaitMs: 25_000})
		claim <- got
		parked <- err
	}()
	w.awaitParked(1)
	if _, err := w.mine.ActOnMachine(t.Context(), w.machine.ID, client.MachineRevoke); err != nil {
		t.Fatal(err)
	}
	if got := <-claim; len(got.Attempts) != 0 {
		t.Errorf("the parked claim got %d attempts", len(got.Attempts))
	}
	if err := <-parked; err != nil && !errors.Is(err, fault.Revoked) {
		t.Errorf("the parked claim: %v", err)
	}
	w.refused("a run", w.call("POST", "/api/ai/runs", w.creds["sdk"], ai.RunRequest{Model: "tiny", Prompt: "x"}), fault.NoEligibleWorker, "model")
	for _, path := range []string{"/api/machine/self", "/api/machine/desired", "/api/whoami"} {
		w.refused(path, w.call("GET", path, w.machine.Credential, nil), fault.Revoked, "")
	}
	w.refused("resume", w.call("POST", "/api/machines/"+w.machine.ID+"/resume?project=mine", w.creds["account"], nil), fault.Conflict, "")
	ms, err := w.mine.Machines(t.Context())
	if err != nil || len(ms) != 1 || ms[0].ID != w.trainer.ID {
		t.Errorf("machines left: %+v %v", ms, err)
	}
	if _, err := w.trainer.Self(t.Context()); err != nil {
		t.Errorf("the other machine went with it: %v", err)
	}
}
