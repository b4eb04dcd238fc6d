package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlock.sh/agent/awake"
	"interlock.sh/agent/enrollment"
	"interlock.sh/fleet"
	"interlock.sh/internal/testkit/fakellama"
	"interlock.sh/llama"
)

func TestDoctorWarnsOfAnAcceleratorThatLiesIdle(t *testing.T) {
	t.Parallel()
	gpu := []fleet.GPU{{Name: "NVIDIA GeForce RTX 4090"}}
	for name, c := range map[string]struct {
		bin  llama.Binary
		gpus []fleet.GPU
		warn bool
	}{
		"CPU build, no accelerator": {llama.Binary{DevicesKnown: true}, nil, false},
		"CPU build, accelerator":    {llama.Binary{DevicesKnown: true}, gpu, true},
		"a build that cannot tell":  {llama.Binary{}, gpu, false},
		"the right build":           {llama.Binary{DevicesKnown: true, GPUs: []string{"CUDA0: " + gpu[0].Name}}, gpu, false},
	} {
		got := serverVerdict(c.bin, c.gpus)
		if !got.OK || got.Warn != c.warn || (got.Fix != "") != c.warn || c.warn && !strings.Contains(got.Detail, "RTX 4090") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestDoctorSaysWhetherTheMachineIsKeptAwake(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		st    awake.State
		warn  bool
		words string
	}{
		"held":      {awake.State{Held: true}, false, "can be kept awake"},
		"refused":   {awake.State{Refused: "Permission denied"}, true, "Permission denied"},
		"partly":    {awake.State{Held: true, Refused: "the lid is not covered"}, true, "the lid"},
		"no answer": {awake.State{}, true, "did not answer within 3s"},
	} {
		got := awakeVerdict(c.st)
		if !got.OK || got.Warn != c.warn || (got.Fix != "") != c.warn || !strings.Contains(got.Detail, c.words) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestDoctorFindsWhatBelongsToAnotherUser(t *testing.T) {
	t.Parallel()
	e := enrollment.Enrollment{Home: enrollment.Home(t.TempDir()), Group: "g", Role: fleet.RoleClient}
	must(t, os.MkdirAll(filepath.Join(e.Dir(), "logs"), 0o700))
	log := filepath.Join(e.Dir(), "logs", "agent.log")
	must(t, os.WriteFile(log, nil, 0o600))
	if c := checkOwner(e); !c.OK {
		t.Errorf("a folder of one user: %+v", c)
	}
	if os.Getuid() == 0 { // nobody else can give a file away
		must(t, os.Chown(log, 12345, -1))
		if c := checkOwner(e); c.OK || !strings.Contains(c.Detail, log) || !strings.Contains(c.Fix, "sudo chown -R root "+e.Home.Group("g")) {
			t.Errorf("after a run under sudo: %+v", c)
		}
	}
	if c := checkOwner(enrollment.Enrollment{Home: "/nowhere", Group: "g"}); c.OK || c.Fix == "" {
		t.Errorf("no folder: %+v", c)
	}
}

func TestEveryFailureHasAWayOut(t *testing.T) {
	t.Parallel()
	if c := verdict("x", errors.New("some error"), ""); c.OK || c.Detail != "some error" || c.Fix == "" {
		t.Errorf("%+v", c)
	}
}

func TestDoctorTellsOfAReplacementThatFailed(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{})
	r.start()
	r.agent.mu.Lock()
	r.agent.going.failed = "could not go on as the new program, and goes on as version test: exec format error"
	r.agent.mu.Unlock()
	c := r.agent.checkSelf()
	if c.OK || !strings.Contains(c.Detail, "exec format error") || !strings.Contains(c.Fix, "interlock agent update --now") {
		t.Errorf("%+v", c)
	}
}
