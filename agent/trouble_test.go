package agent

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"interlock.sh/agent/memory"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/testkit/fakellama"
	"interlock.sh/internal/testkit/plane"
)

func TestAMissingLlamaServerIsSaidWithTheWayOutAndFoundWhenItComes(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{}, onFakeTime)
	place := filepath.Join(t.TempDir(), "llama-server")
	r.useServer(place)
	r.start()
	r.plane.Deploy(nil, r.group, "tiny", 1)
	d := r.awaitWords("tiny", "blocked: llama-server not found")
	if !strings.Contains(d.State.Detail, "correct the setting or remove it") {
		t.Errorf("no way out in %q", d.State.Detail)
	}
	r.awaitMachine("blocked: llama-server not found")
	if err := os.Symlink(fakellama.Install(t, fakellama.Config{}), place); err != nil {
		t.Fatal(err)
	}
	r.awaitMachine("ready")
}

func TestWithoutASettingTheInstallLineIsSaid(t *testing.T) {
	t.Parallel()
	err := withHint(fault.New(fault.NotFound, "llama-server not found in PATH").WithHint("install it: brew install llama.cpp"))
	if got := said(err); got != "llama-server not found in PATH: install it: brew install llama.cpp" {
		t.Errorf("shown as %q", got)
	}
}

func TestTooLittleMemoryIsRefusedWithTheNumbersUntilItIsFree(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{}, onFakeTime)
	started, alive := processes()
	ledger := memory.Open(r.home.Ledger(), alive)
	other := memory.Promise{Deployment: "big", Group: "another group", Bytes: 1 << 50, Pid: os.Getpid(), Started: started}
	if err := ledger.Reserve(t.Context(), other, memory.Free{Total: 1 << 60, Available: 1 << 60}); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.plane.Deploy(nil, r.group, "tiny", 1)
	d := r.awaitWords("tiny", "blocked: memory: the model needs ")
	if !strings.Contains(d.State.Detail, "GiB and 0.00 GiB is free for it") {
		t.Errorf("no numbers in %q", d.State.Detail)
	}
	if err := ledger.Release(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	r.awaitMachine("ready")
}

func TestAFullDiskIsSaidBeforeTheFirstByteAndTheDownloadBeginsWhenSpaceReturns(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{}, onFakeTime)
	var free atomic.Int64
	free.Store(1 << 20)
	r.free = func(string) (int64, error) { return free.Load(), nil }
	r.start()
	dep := r.plane.Deploy(nil, r.group, "tiny", 1)
	d := r.awaitWords("tiny", "blocked: disk: needs ")
	if !strings.Contains(d.State.Detail, "has 1.0 MiB free") {
		t.Errorf("no numbers in %q", d.State.Detail)
	}
	r.awaitMachine("blocked: disk")
	blob := "GET /api/blobs/" + r.agent.wantedFile(dep.ID).SHA256
	if r.road.times(blob) != 0 {
		t.Error("it began to download")
	}
	free.Store(1 << 40)
	r.awaitMachine("ready")
	if r.road.times(blob) != 1 {
		t.Errorf("it was fetched %d times", r.road.times(blob))
	}
}

// wantedFile is the first file of a deployment in the desired state.
func (a *Agent) wantedFile(id string) fleet.File {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range a.desired.Deployments {
		if d.ID == id {
			return d.Files[0]
		}
	}
	return fleet.File{}
}

func TestAModelLargerThanTheMachineIsRefusedBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{}, onFakeTime)
	r.free = func(string) (int64, error) { return 1 << 60, nil }
	direct := r.e
	direct.Origin = r.plane.URL
	control, err := direct.Client("test")
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	r.road.rules(func(w http.ResponseWriter, req *http.Request) bool {
		if req.URL.Path != "/api/machine/desired" {
			return false
		}
		d, err := control.DesiredState(req.Context())
		if err != nil {
			return false // the agent meets the same error
		}
		for i := range d.Deployments {
			d.Deployments[i].Files[0].Size = 1 << 50
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(d) // an agent that is gone reads nothing
		return true
	})
	r.start()
	dep := r.plane.Deploy(nil, r.group, "huge", 1)
	d := r.awaitWords("huge", "blocked: memory: the model needs at least ")
	if !strings.Contains(d.State.Detail, "1153434.10 GiB and this machine has ") || !strings.Contains(d.State.Detail, "GiB of memory") {
		t.Errorf("no numbers in %q", d.State.Detail)
	}
	r.awaitMachine("blocked: memory")
	if r.road.times("GET /api/blobs/"+r.agent.wantedFile(dep.ID).SHA256) != 0 {
		t.Error("it began to download")
	}
	r.road.open()
	r.awaitMachine("ready")
}

func TestADiskThatFillsUpUnderADownloadKeepsThePartAndGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{}, onFakeTime)
	var free atomic.Int64
	free.Store(1 << 40)
	r.free = func(string) (int64, error) { return free.Load(), nil }
	whole, err := os.ReadFile(plane.TinyModel(t, 1, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	half := make(chan struct{})
	r.road.rules(func(w http.ResponseWriter, req *http.Request) bool {
		if !strings.HasPrefix(req.URL.Path, "/api/blobs/") {
			return false
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(whole)))
		_, _ = w.Write(whole[:len(whole)/2])
		_ = http.NewResponseController(w).Flush()
		close(half)
		<-req.Context().Done()
		return true
	})
	r.start()
	dep := r.plane.Deploy(nil, r.group, "tiny", 1)
	<-half
	part := filepath.Join(r.home.Blobs(), r.agent.wantedFile(dep.ID).SHA256+".part")
	kept := func() bool { st, err := os.Stat(part); return err == nil && st.Size() > 0 }
	r.await("the first bytes", kept)
	r.stop()
	free.Store(1 << 20)
	r.start()
	r.awaitMachine("blocked: disk: needs ")
	if !kept() {
		t.Error("the part is gone")
	}
	var from atomic.Value
	r.road.rules(func(_ http.ResponseWriter, req *http.Request) bool {
		if strings.HasPrefix(req.URL.Path, "/api/blobs/") {
			from.Store(req.Header.Get("Range"))
		}
		return false
	})
	free.Store(1 << 40)
	r.awaitMachine("ready")
	if got, _ := from.Load().(string); !strings.HasPrefix(got, "bytes=") || got == "bytes=0-" {
		t.Errorf("it went on with Range %q", got)
	}
}

func TestAMissingShardNeverStarts(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{})
	files := r.plane.Upload(r.plane.Owner, plane.TinyModel(t, 1, 2)...)
	if _, err := r.plane.Owner.CreateRelease(t.Context(), r.group.ID, fleet.NewReleaseRequest{Name: "split", Files: files, License: "test"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.plane.Owner.Deploy(t.Context(), r.group.ID, fleet.NewDeploymentRequest{Release: "split", Alias: "split"}); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.awaitWords("split", "ready")
	// A control plane that names less, or something else, than it should.
	r.agent.want(fleet.Desired{Version: r.agent.Report(t.Context()).DesiredVersion, Mode: fleet.Active, Deployments: []fleet.DesiredDeployment{
		{ID: "dep_split", Alias: "half", Runtime: fleet.LlamaCpp, Files: files[:1], ContextLength: 512, Slots: 1},
		{ID: "dep_none", Alias: "none", Runtime: fleet.LlamaCpp, ContextLength: 512, Slots: 1},
		{ID: "../../../escape", Alias: "escape", Runtime: fleet.LlamaCpp, Files: files, ContextLength: 512, Slots: 1},
		{ID: "dep_mlx", Alias: "mlx", Runtime: fleet.MLXLM, Files: files, ContextLength: 512, Slots: 1},
		{ID: "dep_whole", Alias: "whole", Runtime: fleet.LlamaCpp, Files: files, ContextLength: 512, Slots: 1},
	}})
	r.awaitWords("whole", "ready")
	if d := r.awaitWords("half", "blocked: the shard "); !strings.Contains(d.State.Detail, "is missing") || d.Restarts != 0 || d.Pid != 0 {
		t.Errorf("without its second shard: %+v", d)
	}
	r.awaitWords("none", "blocked: the deployment names no files")
	r.awaitWords("mlx", "unsupported: runtime mlx-lm")
	if d := r.awaitWords("escape", "blocked: "); d.Pid != 0 {
		t.Errorf("an id that leads out of its folder: %+v", d)
	}
	if _, err := os.Stat(filepath.Join(string(r.home), "escape")); err == nil {
		t.Error("a folder was made outside of the group's")
	}
}

func TestBytesFlippedOnDiskAreFoundBeforeAStartAndFetchedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{})
	r.start()
	dep := r.plane.Deploy(nil, r.group, "tiny", 1)
	r.awaitMachine("ready")
	file := r.agent.wantedFile(dep.ID)
	r.stop()
	path := filepath.Join(r.home.Blobs(), file.SHA256)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bad := append([]byte{}, good...)
	bad[len(bad)/2] ^= 0xff
	if err := os.WriteFile(path, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	if c := checkFiles(t.Context(), r.agent.host.cache, fleet.Desired{Deployments: []fleet.DesiredDeployment{{Files: []fleet.File{file}}}}, false); c[0].OK {
		t.Errorf("doctor finds nothing: %+v", c)
	}
	r.start()
	r.awaitMachine("ready")
	if got := r.road.times("GET /api/blobs/" + file.SHA256); got != 2 {
		t.Errorf("fetched %d times, want twice", got)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(good) {
		t.Errorf("the bytes are still wrong: %v", err)
	}
}

func TestACopiedFolderIsShownOnBothSidesUntilTheOtherIsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{}, onFakeTime)
	r.start()
	r.plane.Deploy(nil, r.group, "tiny", 1)
	r.awaitMachine("ready")
	r.road.refuse("/api/machine/heartbeat", fault.New(fault.Conflict, "two computers use this enrollment (mini and maxi)").WithHint("enroll this one by itself"))
	r.await("blocked, and nothing served", func() bool {
		hb := r.agent.Report(context.Background())
		return hb.State.String() == "blocked: two computers use this enrollment (mini and maxi)" && len(hb.Deployments) == 0
	})
	r.await("nothing claimed", func() bool { return len(r.workerPools()) == 0 })
	r.road.open()
	r.awaitMachine("ready")
}

func TestAFolderOfAnotherComputerServesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{})
	r.plane.Deploy(nil, r.group, "tiny", 1)
	r.e.HostID, r.e.Name = "another", "old-mac"
	r.start()
	r.await("the reason", func() bool {
		hb := r.agent.Report(context.Background())
		return strings.HasPrefix(hb.State.String(), "blocked: this folder was copied from another computer (old-mac)")
	})
	r.awaitMachine("blocked")
	if got := r.versions(); len(got) != 0 {
		t.Errorf("it prepared %v", got)
	}
}

func TestAMachineRevokedWhileItServesStopsAndSaysSo(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{})
	r.start()
	r.plane.Deploy(nil, r.group, "tiny", 1)
	r.awaitMachine("ready")
	if err := r.plane.Owner.Do(t.Context(), http.MethodPost, "/api/machines/"+r.e.Machine+"/revoke", nil, nil); err != nil {
		t.Fatal(err)
	}
	door := r.door()
	r.agent.poke()
	r.await("blocked, and nothing served", func() bool {
		st, err := door.Status(context.Background())
		return err == nil && st.Words == "blocked: "+revokedWords && len(st.Report.Deployments) == 0 && st.LastError != ""
	})
	if got := r.versions(); len(got) != 1 {
		t.Error("the installation is gone with the credential")
	}
}

func TestAControlPlaneThatIsAwayStopsNothing(t *testing.T) {
	t.Parallel()
	control := fakellama.NewControl(t)
	r := newRig(t, fakellama.Config{Control: control.Path(), GateTokens: true})
	control.Step(1)
	r.start()
	r.plane.Deploy(nil, r.group, "tiny", 1)
	pid := r.awaitMachine("ready").Deployments[0].Pid
	answered := r.ask("tiny")
	r.await("the request in hand", func() bool { return r.deployment("tiny").Busy == 1 })
	r.road.block()
	r.agent.poke()
	door := r.door()
	r.await("the reason in the status", func() bool {
		st, err := door.Status(context.Background())
		return err == nil && st.LastError != "" && st.Words == "ready"
	})
	control.Open()
	r.await("the answer in hand at its end", func() bool { d := r.deployment("tiny"); return d.Busy == 0 && d.TokensPerSecond != nil })
	r.road.open()
	if run := <-answered; run.Answer == nil || *run.Answer != "Hello, world." || run.Attempt != 1 {
		t.Errorf("after the outage: %+v", run)
	}
	r.await("no error", func() bool { st, err := door.Status(context.Background()); return err == nil && st.LastError == "" })
	if got := r.deployment("tiny"); got.Pid != pid || !got.State.Serving() {
		t.Errorf("the model server is another: %+v", got)
	}
}

func TestWithoutAnyHintTheDesiredStateIsPolled(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{}, onFakeTime)
	r.road.refuse("/api/workers/events", fault.New(fault.Unavailable, "no streams here"))
	r.start()
	r.awaitMachine("idle")
	r.plane.Deploy(nil, r.group, "tiny", 1)
	r.awaitMachine("ready")
}
