package plane

import (
	"encoding/json"
	"strings"
	"testing"

	"interlock.sh/ai"
	"interlock.sh/client"
	"interlock.sh/fleet"
	"interlock.sh/tasks"
)

// Machine is an enrolled machine that a test plays.
type Machine struct {
	*client.Client
	ID         string
	Name       string
	Credential string

	t testing.TB
}

// Enroll enrolls a machine in a group and lets it report that it idles.
func (p *Plane) Enroll(g Group, role fleet.Role, name string) *Machine {
	p.t.Helper()
	got, err := p.Client(g.Keys[role]).Enroll(p.t.Context(), fleet.EnrollRequest{
		Group: g.ID, Role: role, Name: name, HostID: "host-of-" + name, Host: fleet.HostFacts{Hostname: name}, Version: "test",
	})
	if err != nil {
		p.t.Fatal("enroll:", err)
	}
	m := &Machine{Client: p.Client(got.Credential), ID: got.Machine, Name: name, Credential: got.Credential, t: p.t}
	m.Beat(fleet.State{Kind: fleet.StateIdle})
	return m
}

// Beat reports a state with the deployments in it.
func (m *Machine) Beat(state fleet.State, ds ...fleet.DeploymentReport) {
	m.t.Helper()
	if _, err := m.Heartbeat(m.t.Context(), m.Report(state, ds...)); err != nil {
		m.t.Fatal("heartbeat:", err)
	}
}

// Report is the heartbeat that Beat sends.
func (m *Machine) Report(state fleet.State, ds ...fleet.DeploymentReport) fleet.Heartbeat {
	return fleet.Heartbeat{
		Instance: "first-of-" + m.Name, HostID: "host-of-" + m.Name, Version: "test", State: state,
		Host: fleet.HostFacts{Hostname: m.Name}, Deployments: ds,
	}
}

// Serve reports a deployment ready and registers for it.
func (m *Machine) Serve(d fleet.Deployment, slots int) {
	m.t.Helper()
	ready := fleet.State{Kind: fleet.StateReady}
	m.Beat(ready, fleet.DeploymentReport{ID: d.ID, Alias: d.Alias, State: ready, Slots: slots})
	m.Register(slots, d)
}

// Register registers for deployments; for none it has nothing to offer.
func (m *Machine) Register(slots int, ds ...fleet.Deployment) {
	m.t.Helper()
	if _, err := m.RegisterWorker(m.t.Context(), m.Registration(slots, ds...)); err != nil {
		m.t.Fatal("register:", err)
	}
}

// Registration is what Register sends.
func (m *Machine) Registration(slots int, ds ...fleet.Deployment) tasks.RegisterRequest {
	req := tasks.RegisterRequest{
		WorkerID: m.ID, MaxConcurrent: slots,
		Handlers: []tasks.Handler{{Type: ai.ChatType, SchemaVersion: ai.ChatVersion, EffectSafety: tasks.Pure}},
	}
	for _, d := range ds {
		req.Pools = append(req.Pools, fleet.Pool(d.ID))
	}
	return req
}

// Take waits for one attempt.
func (m *Machine) Take() tasks.Attempt {
	m.t.Helper()
	got, err := m.ClaimTasks(m.t.Context(), tasks.ClaimRequest{WorkerID: m.ID, Max: 1, WaitMs: 10_000})
	if err != nil || len(got.Attempts) != 1 {
		m.t.Fatalf("claimed %d attempts: %v", len(got.Attempts), err)
	}
	return got.Attempts[0]
}

// Answer is one attempt's output stream as a worker of ai/chat writes it.
type Answer struct {
	Attempt tasks.Attempt
	Sent    int64
	Text    strings.Builder

	m *Machine
}

// Begin begins to answer an attempt.
func (m *Machine) Begin(a tasks.Attempt) *Answer { return &Answer{Attempt: a, m: m} }

// Say sends words, one chunk each.
func (a *Answer) Say(words ...string) {
	a.m.t.Helper()
	for _, w := range words {
		delta, err := json.Marshal(map[string]string{"content": w})
		if err != nil {
			a.m.t.Fatal(err)
		}
		a.Text.WriteString(w)
		a.Chunk(ai.Chunk{Delta: delta})
	}
}

// Chunk sends one chunk.
func (a *Answer) Chunk(c ai.Chunk) {
	a.m.t.Helper()
	line, err := json.Marshal(c)
	if err != nil {
		a.m.t.Fatal(err)
	}
	a.Raw(string(line) + "\n")
}

// Raw sends bytes of the stream as they are.
func (a *Answer) Raw(text string) {
	a.m.t.Helper()
	_, err := a.m.ReportDelta(a.m.t.Context(), tasks.DeltaReport{Ref: a.Attempt.Ref, Offset: a.Sent, Text: text})
	if err != nil {
		a.m.t.Fatal("delta:", err)
	}
	a.Sent += int64(len(text))
}

// Finish completes the attempt with what was said and two prompt tokens for each token of the answer.
func (a *Answer) Finish(tokens int) tasks.Outcome {
	a.m.t.Helper()
	return a.FinishWith(ai.ChatResult{
		Content: a.Text.String(), FinishReason: "stop", DurationMs: 5,
		Usage: ai.Usage{PromptTokens: 2 * tokens, CompletionTokens: tokens, TotalTokens: 3 * tokens},
	})
}

// FinishWith completes the attempt with a result.
func (a *Answer) FinishWith(res ai.ChatResult) tasks.Outcome {
	a.m.t.Helper()
	b, err := json.Marshal(res)
	if err != nil {
		a.m.t.Fatal(err)
	}
	out, err := a.m.CompleteTasks(a.m.t.Context(), tasks.CompleteRequest{
		Completions: []tasks.Completion{{Ref: a.Attempt.Ref, Result: b, StreamBytes: a.Sent}},
	})
	if err != nil || len(out.Outcomes) != 1 {
		a.m.t.Fatal("complete:", err)
	}
	return out.Outcomes[0]
}

// Fail ends the attempt without a result.
func (a *Answer) Fail(f tasks.Failure) tasks.Outcome {
	a.m.t.Helper()
	out, err := a.m.FailTask(a.m.t.Context(), tasks.FailReport{Ref: a.Attempt.Ref, Failure: f, StreamBytes: a.Sent})
	if err != nil {
		a.m.t.Fatal("fail:", err)
	}
	return out
}
