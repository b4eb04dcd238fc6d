package supervise

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"interlock.sh/internal/atomicfile"
	"interlock.sh/internal/testkit/fakellama"
)

func TestThreeReplacementsKeepTheModelServer(t *testing.T) {
	eachLeash(t, func(t *testing.T, leash Leash) {
		r, first := startReplacer(t, t.TempDir(), leash)
		members := group(t, first.PID)

		// Somebody asks all the time.
		over := make(chan struct{})
		var asking sync.WaitGroup
		asked := 0
		asking.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if err := r.answers(first); err != nil {
					t.Errorf("request %d beside the replacements: %v", asked, err)
					return
				}
				asked++
			}
		})
		for n := range 3 {
			r.replace(os.Args[0])
			now := r.hear()
			if now.PID != first.PID || now.Port != first.Port || now.Key != first.Key || now.Starts != 1 || now.Agent != first.Agent {
				t.Errorf("after replacement %d: %+v, at first %+v", n+1, now, first)
			}
			if now.Tail != tailLines {
				t.Errorf("after replacement %d %d lines of its output are known", n+1, now.Tail)
			}
			if want := "from " + jsonText(t, first.Agent); now.Note != want || !now.File || len(now.Inherited) != 1 {
				t.Errorf("after replacement %d the next image has note %q, file %v, children %v", n+1, now.Note, now.File, now.Inherited)
			}
			if _, err := os.Stat(filepath.Join(r.dir, handOverName)); !os.IsNotExist(err) {
				t.Errorf("the record with keys stays: %v", err)
			}
		}
		close(over)
		asking.Wait()
		t.Logf("%d requests were answered beside the replacements", asked)
		// The leash still holds, and is no longer than it was.
		kill(t, r.cmd)
		gone(t, members, killBound)
		again, fresh := startReplacer(t, r.dir, leash)
		if fresh.PID == first.PID || fresh.Starts != 1 || len(fresh.Inherited) != 0 {
			t.Errorf("the next agent has %+v", fresh)
		}
		kill(t, again.cmd)
	})
}

func jsonText(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestKilledAtAnyStepOfAHandOverLeavesNoOrphan(t *testing.T) {
	for _, step := range []string{"frozen", "written", "exec", "taken", "adopted"} {
		t.Run(step, func(t *testing.T) {
			eachLeash(t, func(t *testing.T, leash Leash) {
				r, first := startReplacer(t, t.TempDir(), leash)
				members := group(t, first.PID)
				r.replace(os.Args[0], envStep+"="+step)
				if w, ok := r.listen(); ok {
					t.Fatalf("it was to be killed, and says %+v", w)
				}
				_ = r.cmd.Wait()
				gone(t, members, killBound)
				_, fresh := startReplacer(t, r.dir, leash)
				if fresh.Err != "" || fresh.PID == first.PID || r.answers(fresh) != nil {
					t.Errorf("the folder is not startable: %+v", fresh)
				}
			})
		})
	}
}

func TestAnExecThatFailsChangesNothing(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	programs := map[string]string{
		"missing":        filepath.Join(dir, "missing"),
		"no program":     write("text", "half of a download", 0o755),
		"empty":          write("empty", "", 0o755),
		"not executable": write("plain", "#!/bin/sh\n", 0o644),
		"a folder":       dir,
		"no interpreter": write("script", "#!"+filepath.Join(dir, "none")+"\n", 0o755),
	}
	eachLeash(t, func(t *testing.T, leash Leash) {
		r, first := startReplacer(t, t.TempDir(), leash)
		for name, program := range programs {
			r.replace(program)
			now := r.hear()
			if now.PID != first.PID || now.Starts != 1 || !strings.Contains(now.Err, "hand over to "+program) {
				t.Errorf("%s: %+v", name, now)
			}
			if err := r.answers(now); err != nil {
				t.Errorf("%s: the model does not answer any more: %v", name, err)
			}
			if _, err := os.Stat(filepath.Join(r.dir, handOverName)); !os.IsNotExist(err) {
				t.Errorf("%s: the record stays: %v", name, err)
			}
		}
		r.replace(os.Args[0])
		if now := r.hear(); now.PID != first.PID {
			t.Errorf("a replacement after those that failed: %+v", now)
		}
	})
}

func TestWhatTheNextImageDoesNotWantIsEnded(t *testing.T) {
	eachLeash(t, func(t *testing.T, leash Leash) {
		r, first := startReplacer(t, t.TempDir(), leash)
		members := group(t, first.PID)
		r.replace(os.Args[0], envAnswer+"=Other.")
		now := r.hear()
		if now.PID == first.PID || now.Starts != 2 {
			t.Errorf("another command was asked for, and it has %+v", now)
		}
		gone(t, members, 0)
		members = group(t, now.PID)
		r.replace(os.Args[0], envDrop+"=1")
		if w := r.hear(); w.Err != "" || len(w.Inherited) != 1 {
			t.Errorf("%+v", w)
		}
		gone(t, members, 0)
		if b, err := os.ReadFile(filepath.Join(r.dir, "children.json")); err != nil || strings.Contains(string(b), `"pid"`) {
			t.Errorf("the table still has children: %s, %v", b, err)
		}
	})
}

func TestAModelThatLoadsGoesOnLoading(t *testing.T) {
	eachLeash(t, func(t *testing.T, leash Leash) {
		control := fakellama.NewControl(t)
		t.Setenv(envGate, control.Path())
		r, first := startReplacer(t, t.TempDir(), leash)
		r.replace(os.Args[0])
		control.FinishLoad()
		if now := r.hear(); now.PID != first.PID || now.Starts != 1 || now.Err != "" || r.answers(now) != nil {
			t.Errorf("it was %+v and is %+v", first, now)
		}
	})
}

func TestAChildThatDiesDuringAHandOverIsStartedAgain(t *testing.T) {
	for _, step := range []string{"frozen", "written", "exec"} {
		t.Run(step, func(t *testing.T) {
			eachLeash(t, func(t *testing.T, leash Leash) {
				r, first := startReplacer(t, t.TempDir(), leash)
				members := group(t, first.PID)
				r.replace(os.Args[0], envReap+"="+step)
				now := r.hear()
				if now.PID == first.PID || now.Err != "" || r.answers(now) != nil {
					t.Errorf("%+v", now)
				}
				gone(t, members, killBound)
				if _, err := os.Stat("/proc/" + jsonText(t, first.PID)); !os.IsNotExist(err) {
					t.Errorf("a dead entry of it stays: %v", err)
				}
			})
		})
	}
}

func TestARecordThatIsNotOursIsNotTakenOver(t *testing.T) {
	me, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	other := me
	other.Start += "1"
	mine := func(h handOverFile) []byte {
		h.Version, h.Agent = handOverVersion, me
		return []byte(jsonText(t, h))
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in, err := describe(f)
	if err != nil {
		t.Fatal(err)
	}
	swapped := in
	swapped.Ino++
	child := func(out inherited) handed {
		return handed{record: record{Name: "tiny", Identity: me, Port: 1}, Output: out}
	}
	for name, text := range map[string][]byte{
		"of another process":      []byte(jsonText(t, handOverFile{Version: 1, Agent: other, Children: []handed{child(in)}})),
		"half":                    []byte(`{"version":1,"agent":{`),
		"empty":                   nil,
		"with a file that is not": mine(handOverFile{Children: []handed{child(swapped)}, Files: map[string]inherited{"lock": swapped}}),
		"with a closed file":      mine(handOverFile{Children: []handed{child(inherited{FD: 999})}}),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := atomicfile.Write(filepath.Join(dir, handOverName), text, 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := TakeOver(dir)
			if err != nil || got != nil && len(got.children)+len(got.files) > 0 {
				t.Errorf("took over %+v, %v", got, err)
			}
			if got.File("lock") != nil {
				t.Error("a file that means another one was taken over")
			}
			if _, err := os.Stat(filepath.Join(dir, handOverName)); !os.IsNotExist(err) {
				t.Errorf("the record stays: %v", err)
			}
		})
	}
}

// BenchmarkHandOver is one replacement of the program: until the model server is ready under the next image.
func BenchmarkHandOver(b *testing.B) {
	r, _ := startReplacer(b, b.TempDir(), SystemLeash)
	for b.Loop() {
		r.replace(os.Args[0])
		r.hear()
	}
}
