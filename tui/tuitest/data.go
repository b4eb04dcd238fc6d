// Package tuitest has a made-up fleet and a backend over it, for tests and for the pictures in the
// documentation. It owns no assertions and does no input or output.
package tuitest

import (
	"encoding/json"
	"fmt"
	"time"

	"interlock.sh/ai"
	"interlock.sh/fleet"
	"interlock.sh/tasks"
)

// Now is the moment at which the made-up fleet stands.
var Now = time.Date(2026, 11, 30, 14, 5, 0, 0, time.UTC)

const gib = int64(1) << 30

func ptr[T any](v T) *T { return &v }

func ago(d time.Duration) time.Time { return Now.Add(-d) }

func host(os, arch, cpu string, cores int, total, free int64) fleet.HostFacts {
	return fleet.HostFacts{OS: os, Arch: arch, CPU: cpu, Cores: cores, MemoryTotal: ptr(total * gib), MemoryFree: ptr(free * gib), DiskFree: ptr(412 * gib)}
}

func machine(id, name string, state fleet.State, seen time.Duration, h fleet.HostFacts, ds ...fleet.DeploymentReport) fleet.Machine {
	return fleet.Machine{
		ID: id, Name: name, Project: "demo", Group: "qwen-coder-4tq2zx", GroupName: "qwen-coder", Role: fleet.RoleClient,
		Runtime: fleet.LlamaCpp, Mode: fleet.Active, State: state, Version: "0.1.0", Host: h, Deployments: ds,
		EnrolledAt: ago(19 * 24 * time.Hour), LastSeen: ptr(ago(seen)),
	}
}

func report(alias string, state fleet.State) fleet.DeploymentReport {
	return fleet.DeploymentReport{ID: "dep_" + alias, Alias: alias, State: state}
}

func serving(alias string, busy, slots int, rate float64, memory int64, since time.Duration) fleet.DeploymentReport {
	d := report(alias, fleet.State{Kind: fleet.StateReady})
	if busy == slots {
		d.State.Kind = fleet.StateFull
	}
	d.Busy, d.Slots, d.ContextLength, d.TokensPerSecond = busy, slots, 32768, ptr(rate)
	d.MemoryBytes, d.Pid, d.ReadySince = ptr(memory), 41872+slots, ptr(ago(since))
	d.Log = []string{
		"main: server is listening on http://127.0.0.1:43817 - starting the main loop",
		"srv  update_slots: all slots are idle",
		"slot launch_slot_: id  1 | task 8812 | processing task",
		"slot update_slots: id  1 | task 8812 | new prompt, n_ctx_slot = 32768, n_tokens = 412",
		"slot print_timing: id  1 | task 8812 | eval time = 3120.11 ms / 178 tokens (57.05 tokens per second)",
		"slot      release: id  1 | task 8812 | stop processing: n_tokens = 590, truncated = 0",
	}
	return d
}

// Machines is a fleet in which everything happens at once.
func Machines() []fleet.Machine {
	ready, full := fleet.State{Kind: fleet.StateReady}, fleet.State{Kind: fleet.StateFull}
	studio := machine("m_01studio", "studio-mac", ready, 4*time.Second, host("darwin", "arm64", "Apple M2 Ultra", 24, 192, 121),
		serving("qwen3-6-35b-a3b", 1, 4, 57.05, 38*gib+gib/3, 26*time.Hour), serving("smollm2-135m", 0, 2, 214.6, gib/4, 3*time.Hour))
	studio.Host.GPUs = []fleet.GPU{{Name: "Apple M2 Ultra (Metal)"}}
	studio.Server = &fleet.ServerFacts{Path: "llama-server", Version: "b6123", Devices: []string{"Metal"}}

	garage := machine("m_02garage", "garage-mac", full, 7*time.Second, host("darwin", "arm64", "Apple M1 Max", 10, 64, 11),
		serving("qwen3-6-35b-a3b", 2, 2, 31.4, 38*gib, 90*time.Minute))
	rack := machine("m_03rack", "rack-01", fleet.State{Kind: fleet.StateDownloading}, 2*time.Second, host("linux", "amd64", "AMD EPYC 7443P", 24, 128, 96))
	rack.Deployments = []fleet.DeploymentReport{{
		ID: "dep_qwen3-6-35b-a3b", Alias: "qwen3-6-35b-a3b", State: fleet.State{Kind: fleet.StateDownloading},
		Downloaded: 12*gib + gib/2, Total: 38 * gib,
	}}
	rack.Host.GPUs = []fleet.GPU{{Name: "NVIDIA RTX A6000", MemoryTotal: ptr(48 * gib), MemoryFree: ptr(47 * gib)}}

	attic := machine("m_04attic", "attic", fleet.State{Kind: fleet.StateOffline}, 47*time.Minute, host("linux", "amd64", "Intel N100", 4, 16, 9),
		report("smollm2-135m", fleet.State{Kind: fleet.StateOffline}))
	attic.Version = "0.0.9"

	bench := machine("m_05bench", "bench", fleet.State{Kind: fleet.StateParked, Detail: "5 starts failed"}, 9*time.Second,
		host("linux", "amd64", "AMD Ryzen 9 7950X", 16, 64, 51), report("qwen3-6-35b-a3b", fleet.State{Kind: fleet.StateParked, Detail: "5 starts failed"}))
	bench.Deployments[0].LastError = "error: failed to allocate buffer of size 39728447488 on device CUDA0"
	bench.Deployments[0].Restarts = 5
	bench.Warnings = []string{"this llama-server is CPU only, and the machine has a GPU"}

	studio.Hours = &fleet.Hours{Mode: "always", Open: true}
	garage.Hours = &fleet.Hours{Mode: "window", Open: true, Next: ptr(Now.Add(4 * time.Hour).Truncate(time.Hour))}
	bench.Hours = &fleet.Hours{Mode: "always", Why: "on battery"}
	laptop := machine("m_06laptop", "mia-laptop", fleet.State{Kind: fleet.StatePaused, Detail: "by owner until 22:00"}, 5*time.Second,
		host("darwin", "arm64", "Apple M3", 8, 24, 12), report("smollm2-135m", fleet.State{Kind: fleet.StatePaused, Detail: "by owner until 22:00"}))
	laptop.Hours = &fleet.Hours{Mode: "night", Why: "until 22:00", Next: ptr(Now.Add(8 * time.Hour).Truncate(time.Hour))}
	fresh := machine("m_07trainer", "trainer-01", fleet.State{Kind: fleet.StateUnsupported, Detail: "role trainer"}, 6*time.Second, fleet.HostFacts{OS: "linux", Arch: "arm64"})
	fresh.Role, fresh.Version = fleet.RoleTrainer, ""
	return []fleet.Machine{studio, garage, rack, attic, bench, laptop, fresh}
}

// Samples is ten minutes of a machine's telemetry with a gap.
func Samples() []fleet.Sample {
	var out []fleet.Sample
	for i := range 60 {
		s := fleet.Sample{At: ago(time.Duration(59-i) * 10 * time.Second), Busy: (i / 7) % 5, Slots: 4, MemoryFree: ptr((119 + int64(i%9)/3) * gib)}
		if i < 22 || i > 25 {
			s.TokensPerSecond = ptr(38 + float64((i*7)%23) - float64(i%5)*2)
		}
		out = append(out, s)
	}
	return out
}

// Many is a fleet of n machines.
func Many(n int) []fleet.Machine {
	kinds := []fleet.StateKind{fleet.StateReady, fleet.StateReady, fleet.StateFull, fleet.StateLoading, fleet.StateOffline, fleet.StatePaused}
	out := make([]fleet.Machine, n)
	for i := range out {
		state := fleet.State{Kind: kinds[i%len(kinds)]}
		d := serving("qwen3-6-35b-a3b", i%4, 4, 20+float64(i%50), 38*gib, time.Hour)
		d.State, d.Log = state, nil
		out[i] = machine(fmt.Sprintf("m_%05d", i), fmt.Sprintf("node-%04d", i), state, time.Duration(i%80)*time.Second, host("linux", "amd64", "AMD EPYC", 24, 128, int64(i%100)), d)
	}
	return out
}

// Unicode is machines whose names are long, wide, right to left, combined or hostile.
func Unicode() []fleet.Machine {
	names := []string{
		"東京の研究室の大きなワークステーション第二号機", "👩‍🔬 lab 🧪 ünïcödé größe", "محطة العمل في المختبر",
		"e\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301vil marks", "red\x1b[31m\x1b]0;title\x07\x1b[2Jname", "turned \u202egnp.exe",
		"a-name-that-is-far-too-long-for-any-column-of-any-table-in-this-program", "한국어 기계", "\u200bzero\u200bwidth\u200b",
	}
	out := make([]fleet.Machine, len(names))
	for i, n := range names {
		out[i] = machine(fmt.Sprintf("m_%02d", i), n, fleet.State{Kind: fleet.StateReady}, time.Duration(i)*time.Second,
			host("linux", "amd64", "CPU", 8, 32, 20), serving("模型-"+n, 0, 2, 40, gib, time.Hour))
		out[i].GroupName = "группа " + n
	}
	return out
}

// Tasks is a page of tasks in every state, one of them not known to this version.
func Tasks() tasks.List {
	states := []tasks.State{
		tasks.Running, tasks.Queued, tasks.Leased, tasks.Succeeded, tasks.Succeeded, tasks.Failed, tasks.Cancelled,
		tasks.OutcomeUnknown, tasks.Expired, tasks.Scheduled, "hibernating",
	}
	workers := []string{"m_01studio", "", "m_02garage", "m_01studio", "m_02garage", "m_05bench", "", "worker-transcode-7", "", "", "m_01studio"}
	var out tasks.List
	for i, s := range states {
		created := ago(time.Duration(i*i*11+6) * time.Second)
		v := tasks.View{
			ID: fmt.Sprintf("t_%08x", 0x9c41+i*7919), Project: "demo", Type: ai.ChatType, SchemaVersion: 1, State: s, Pool: "deployment:dep_qwen3-6-35b-a3b",
			Attempts: 1, MaxAttempts: 2, EffectSafety: tasks.Pure, WorkerID: workers[i], CreatedAt: created, UpdatedAt: created, Cursor: 7,
		}
		if i%4 == 3 {
			v.Type, v.Pool, v.MaxAttempts = "audio/transcribe", "default", 3
		}
		if s.Held() || s.Terminal() {
			v.StartedAt = ptr(created.Add(400 * time.Millisecond))
		} else {
			v.Attempts = 0
		}
		if s.Terminal() {
			v.EndedAt = ptr(created.Add(time.Duration(2100+i*850) * time.Millisecond))
		}
		switch s {
		case tasks.Running:
			v.Attempts = 2
			v.Progress = &tasks.Progress{Percent: 42, Message: "178 tokens"}
		case tasks.Failed:
			v.Error = &tasks.Failure{Code: "MODEL_CRASHED", Message: "llama-server ended with signal 9 while it answered"}
		case tasks.OutcomeUnknown:
			v.EffectSafety = tasks.NonIdempotent
		}
		out.Tasks = append(out.Tasks, v)
	}
	return out
}

// Journal is the journal of a task that needed two attempts.
func Journal(at time.Time) tasks.Journal {
	raw := func(v any) json.RawMessage {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err) // only of the literals below
		}
		return b
	}
	var j tasks.Journal
	add := func(ms int, kind tasks.EntryKind, data any) {
		e := tasks.Entry{Seq: int64(len(j.Entries) + 1), At: at.Add(time.Duration(ms) * time.Millisecond), Kind: kind}
		if data != nil {
			e.Data = raw(data)
		}
		j.Entries = append(j.Entries, e)
	}
	add(0, tasks.EntrySubmitted, nil)
	add(1, tasks.EntryQueued, nil)
	add(4, tasks.EntryLeased, map[string]any{"workerId": "m_02garage", "number": 1, "fence": 1})
	add(38, tasks.EntryRunning, nil)
	add(1210, tasks.EntryAttemptLost, map[string]any{"reason": "the lease ran out"})
	add(1211, tasks.EntryQueued, map[string]any{"reason": "pure work is repeated"})
	add(1215, tasks.EntryLeased, map[string]any{"workerId": "m_01studio", "number": 2, "fence": 2})
	add(1240, tasks.EntryRunning, nil)
	add(1244, tasks.EntryLog, map[string]any{"lines": []tasks.LogLine{{Level: "info", Line: "prompt of 412 tokens"}, {Level: "error", Line: "one tool call was no JSON and was passed on as it came"}}})
	for i := range 24 {
		add(1300+i*100, tasks.EntryDelta, tasks.DeltaData{Offset: int64(i * 120), Text: "{\"delta\":{\"content\":\"some words of an answer\"}}\n"})
	}
	add(3700, tasks.EntryProgress, map[string]any{"percent": 42, "message": "178 tokens"})
	j.Cursor = int64(len(j.Entries))
	return j
}
