package supervise

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"interlock.sh/internal/testkit"
	"interlock.sh/internal/testkit/gguftiny"
)

// realDriver starts a real llama-server; what it answers is judged as the fake's is.
type realDriver struct {
	fakeDriver
	program, model string
}

func (d *realDriver) Command(at Endpoint) (Command, error) {
	return Command{Path: d.program, Args: []string{
		"--host", Host, "--port", fmt.Sprint(at.Port), "--api-key-file", at.KeyFile, "-m", d.model, "-a", "tiny",
		"-c", fmt.Sprint(wantCtx * wantSlots), "-np", fmt.Sprint(wantSlots), "-t", "1", "-tb", "1", "--no-webui",
	}}, nil
}

func (d *realDriver) ParseError(tail []string) string {
	for _, line := range tail {
		if strings.Contains(line, "invalid magic") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

func TestRealServer(t *testing.T) {
	program := testkit.LlamaServer(t)
	model := filepath.Join(t.TempDir(), "tiny.gguf")
	if _, err := gguftiny.Write(model, 1, gguftiny.Options{}); err != nil {
		t.Fatal(err)
	}
	notModel := filepath.Join(t.TempDir(), "not.gguf")
	if err := os.WriteFile(notModel, []byte("this is no model"), 0o600); err != nil {
		t.Fatal(err)
	}
	policy := quick
	policy.ProbeEvery = patience // an idle real server is quiet here
	policy.KillAfter = patience  // and ends by SIGTERM
	policy.LoadStall = patience
	eachLeash(t, func(t *testing.T, leash Leash) {
		s := newSupervisor(t, leash, policy)
		c := add(t, s, &realDriver{program: program, model: model})
		c.Start()
		first := awaitState(t, c, Ready)
		members := group(t, first.PID)

		lease, err := c.Acquire()
		if err != nil {
			t.Fatal(err)
		}
		code, body, err := request(t.Context(), "POST", lease.At, "/v1/chat/completions", lease.At.Key,
			`{"messages":[{"role":"user","content":"hi"}],"max_tokens":5}`)
		var answer struct {
			Usage struct {
				Completion int `json:"completion_tokens"`
			} `json:"usage"`
		}
		if err == nil {
			err = json.Unmarshal(body, &answer)
		}
		lease.Done(err == nil)
		if err != nil || code != 200 || answer.Usage.Completion != 5 {
			t.Fatalf("chat answers %d %s, %v", code, body, err)
		}

		if err := syscall.Kill(members[len(members)-1], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		gone(t, members, killBound)
		second := await(t, c, "ready again", func(st Status) bool { return st.State == Ready && st.Starts == 2 })
		members = group(t, second.PID)
		stop(t, c)
		gone(t, members, 0)

		c.Replace(&realDriver{program: program, model: notModel})
		c.Start()
		st := awaitState(t, c, Parked)
		// The server writes its log from a thread, which its own exit may overtake: of five starts not each says why.
		log, err := os.ReadFile(c.out.path)
		if err != nil || !strings.Contains(st.Reason, "exit status 1") || !strings.Contains(string(log), "invalid magic") {
			t.Errorf("no model: %q, %v\n%s", st.Reason, err, log)
		}
		// What the last start did say is what the owner is told.
		if cause := "invalid magic"; strings.Contains(strings.Join(c.Tail(tailLines), "\n"), cause) && !strings.Contains(st.Reason, cause) {
			t.Errorf("the reason %q leaves out what the server said", st.Reason)
		}
	})
}
