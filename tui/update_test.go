package tui

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/tasks"
	"interlock.sh/tui/tuitest"
)

func TestActionsAskFirst(t *testing.T) {
	for _, c := range []struct{ key, does string }{{"p", "pause"}, {"r", "resume"}, {"d", "drain"}} {
		t.Run(c.does, func(t *testing.T) {
			b := tuitest.New()
			h := newHarness(t, b, 120, 40).load()
			h.press(c.key)
			h.has(strings.ToUpper(c.does[:1])+c.does[1:]+" attic?", "y yes")
			if len(b.Acts) > 0 {
				t.Fatalf("acted before the answer: %v", b.Acts)
			}
			// Neither an unrelated key, nor a pasted y, nor enter is a yes.
			h.press("enter", "x")
			h.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("y"), Paste: true})
			if len(b.Acts) > 0 || h.dialog == nil {
				t.Fatalf("the question ended without an answer: %v", b.Acts)
			}
			h.press("n")
			h.lacks("attic?")
			if len(b.Acts) > 0 {
				t.Fatalf("no was taken for yes: %v", b.Acts)
			}
			h.press(c.key, "y")
			if want := []string{c.does + " m_04attic"}; !reflect.DeepEqual(b.Acts, want) {
				t.Fatalf("did %v, want %v", b.Acts, want)
			}
			h.has("attic: asked to " + c.does)
			h.press("down")
			h.lacks("asked to")
		})
	}
}

func TestWhatWasAskedShowsUntilItIsSo(t *testing.T) {
	b := tuitest.New()
	b.Fleet[0].Mode, b.Fleet[1].Mode = fleet.Draining, fleet.Paused
	h := newHarness(t, b, 200, 40).load()
	h.has("● ready, drain asked", "● full, pause asked")
	b.Fleet[0].State.Kind, b.Fleet[1].State = fleet.StateDraining, fleet.State{Kind: fleet.StatePaused, Detail: fleet.PausedByServer}
	h.load().has("◐ draining", "○ paused (by server)")
	h.lacks(" asked")
}

func TestFailedActionIsSaid(t *testing.T) {
	b := tuitest.New()
	h := newHarness(t, b, 120, 40).load()
	b.Err = fault.New(fault.ScopeDenied, "this key may not pause machines").WithHint("log in as its owner")
	h.press("p", "y")
	h.has("✕ this key may not pause machines (log in as its owner)")
}

func TestCancelTaskOnlyWhileItIsLive(t *testing.T) {
	b := tuitest.New()
	h := newHarness(t, b, 120, 40).load().press("2")
	h.press("c")
	h.has("Cancel ai/chat t_00009c41?", "A worker holds it")
	h.press("y")
	if want := []string{"cancel t_00009c41"}; !reflect.DeepEqual(b.Acts, want) {
		t.Fatalf("did %v, want %v", b.Acts, want)
	}
	h.press("down", "down", "down", "c") // a task that succeeded
	if h.dialog != nil {
		t.Error("a terminal task can be cancelled")
	}
}

func TestUnknownTaskStateIsLive(t *testing.T) {
	h := newHarness(t, tuitest.New(), 120, 40).load().press("2", "f")
	h.has("state live", "hibernating", "running", "queued")
	h.lacks("succeeded", "outcome-unknown", "expired")
	h.press("G", "k", "G")
	h.press("c")
	if h.dialog == nil {
		t.Error("a task in a state of a newer control plane cannot be cancelled")
	}
}

func TestTaskFiltersAskTheServer(t *testing.T) {
	b := tuitest.New()
	h := newHarness(t, b, 120, 40).load().press("2")
	for range 2 + len(tasks.States) {
		h.press("f")
		if h.tasks.Query().State == tasks.Failed {
			break
		}
	}
	h.has("state failed", "MODEL_CRASHED")
	h.lacks("succeeded")
	h.press("t", "t")
	h.has("state failed", "type audio/transcribe", "No task here")
	h.press("esc")
	h.has("state all", "type all", "succeeded")
}

func TestAnswerOfAnOlderQueryIsDropped(t *testing.T) {
	b := tuitest.New()
	h := newHarness(t, b, 120, 40).load().press("2")
	old := listBrought{list: tasks.List{Tasks: []tasks.View{{ID: "t_old", Type: "stale/type", State: tasks.Queued}}}, filter: h.tasks.Query()}
	h.press("f", "f")
	h.Update(old)
	h.lacks("stale/type")
}

func TestFilterMatchesEveryWordOfARow(t *testing.T) {
	h := newHarness(t, tuitest.New(), 120, 40).load().press("/")
	h.typed("q?12") // keys that mean something else are letters here
	h.has("/ q?12", "No machine matches")
	h.press("esc", "/").typed("qwen FULL")
	h.has("1 of 7", "garage-mac")
	h.lacks("rack-01")
	h.press("enter", "esc")
	h.has("rack-01")
}

func TestSortKeepsTheChosenMachine(t *testing.T) {
	h := newHarness(t, tuitest.New(), 120, 40).load().press("down")
	for range 12 {
		h.press("s")
		if m, _ := h.fleet.Selected(); m.Name != "bench" {
			t.Fatalf("the choice went to %s", m.Name)
		}
	}
	h.press("S")
	h.has("▼", "▸ bench")
	// A machine that appears before it moves the row, not the choice.
	h.backend.Fleet = append([]fleet.Machine{{ID: "m_00", Name: "aaa", State: fleet.State{Kind: fleet.StateReady}}}, h.backend.Fleet...)
	h.load().has("▸ bench", "aaa")
}

func TestUnknownFiguresAreNeverZero(t *testing.T) {
	b := tuitest.New()
	b.Fleet = []fleet.Machine{{ID: "m_1", Name: "bare", State: fleet.State{Kind: fleet.StateEnrolling}}}
	b.Samples = nil
	h := newHarness(t, b, 120, 40).load()
	for line := range strings.Lines(h.has("enrolling")) {
		if strings.Contains(line, "▸ bare") && (strings.Contains(line, "0") || strings.Count(line, "—") != 6) {
			t.Errorf("a figure that nobody reported: %q", line)
		}
	}
}

func TestAskStreamsAndNamesTheMachine(t *testing.T) {
	b := tuitest.New()
	h := newHarness(t, b, 120, 40).load().press("3", "down")
	h.typed("Say q and 1?").press("enter")
	if want := []string{"ask smollm2-135m: Say q and 1?"}; !reflect.DeepEqual(b.Acts, want) {
		t.Fatalf("did %v, want %v", b.Acts, want)
	}
	h.has("› Say q and 1?", "until the time runs out", "succeeded", "studio-mac", "31 tokens", "57 tok/s")
	h.press("enter") // nothing typed
	if len(b.Acts) != 1 {
		t.Errorf("an empty prompt was sent: %v", b.Acts)
	}
}

func TestAskStopsAfterAQuestion(t *testing.T) {
	b := tuitest.New()
	h := newHarness(t, b, 120, 40)
	streaming(h)
	h.press("esc", "c")
	h.has("Stop this answer?")
	h.press("y")
	if want := []string{"cancel run_1"}; !reflect.DeepEqual(b.Acts, want) {
		t.Fatalf("did %v, want %v", b.Acts, want)
	}
}

func TestAskShowsARepeatedDeltaOnce(t *testing.T) {
	h := newHarness(t, tuitest.New(), 120, 40)
	streaming(h)
	if n := strings.Count(h.has("◐ answers  studio-mac"), "old number"); n != 1 {
		t.Errorf("the delta is shown %d times", n)
	}
	h.lacks("lost words")
}

func TestPastedTextIsNoRowOfKeys(t *testing.T) {
	b := tuitest.New()
	h := newHarness(t, b, 120, 40).load()
	paste := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("pyq"), Paste: true}
	if _, cmd := h.Update(paste); cmd != nil || h.dialog != nil {
		t.Error("a paste on the fleet page did something")
	}
	h.press("3")
	h.Update(paste)
	h.has("› pyq▏")
}

func TestKeysThatArriveAtOnce(t *testing.T) {
	b := tuitest.New()
	h := newHarness(t, b, 120, 40).load()
	h.press("jjj").has("▸ mia-laptop") // a key held down
	h.press("py", "dy")                // a paste of a terminal that does not say so
	if len(b.Acts) > 0 || h.dialog != nil {
		t.Errorf("did %v", b.Acts)
	}
	h.press("3", "several letters").has("› several letters▏")
}

func TestHintsReadWhatIsShown(t *testing.T) {
	for _, c := range []struct {
		page string
		kind string
		read bool
	}{
		{"1", hintMachines, true}, {"1", hintTasks, true}, {"2", hintRuns, true}, {"2", hintMachines, true},
		{"?", hintTasks, false}, {"1", "a kind of a newer server", false},
	} {
		b := tuitest.New()
		h := newHarness(t, b, 120, 40).load().press(c.page)
		before := b.Reads
		if h.hint(c.kind); (b.Reads > before) != c.read {
			t.Errorf("hint %q on page %s: read %v", c.kind, c.page, b.Reads > before)
		}
		b.Fleet[0].State.Kind = fleet.StateDraining
		b.List.Tasks[1].State = tasks.OutcomeUnknown
		h.hint(hintMachines)
		h.press("1").has("draining")
	}
}

// TestStormOfHintsIsFewReads sends hints as fast as they come: one read at once, one for all the rest.
func TestStormOfHintsIsFewReads(t *testing.T) {
	b := tuitest.New()
	h := newHarness(t, b, 120, 40).load()
	h.hint(hintMachines)
	before := b.Reads
	_, later := h.Update(hintMsg{hintMachines})
	for range 1000 {
		if _, cmd := h.Update(hintMsg{hintMachines}); cmd != nil {
			t.Fatal("a second read is waiting beside the first")
		}
	}
	if b.Reads != before {
		t.Fatalf("%d reads before the hints settled", b.Reads-before)
	}
	_, cmd := h.Update(h.settled(later))
	if h.settle(cmd); b.Reads != before+1 {
		t.Errorf("a thousand hints were %d reads", b.Reads-before)
	}
}

// TestHintDuringAReadIsNotLost: what the read brings may be older than the hint.
func TestHintDuringAReadIsNotLost(t *testing.T) {
	h := newHarness(t, tuitest.New(), 120, 40).load()
	first := h.readMachines()
	if cmd := h.readMachines(); cmd != nil {
		t.Fatal("two reads of one thing at a time")
	}
	_, later := h.Update(first())
	if _, cmd := h.Update(h.settled(later)); cmd == nil {
		t.Error("the hint was lost")
	}
}

func TestDisconnectedAndBack(t *testing.T) {
	h := newHarness(t, tuitest.New(), 120, 40).load()
	h.backend.Err = away
	h.load().has("✕ disconnected", "shown as last read", "studio-mac")
	h.backend.Err = nil
	h.load().has("● connected")
	h.lacks("shown as last read")
}

func TestAgesGoOnByThemselves(t *testing.T) {
	h := newHarness(t, tuitest.New(), 120, 40).load()
	h.has("9 s ago")
	h.clock.Advance(3 * time.Minute)
	h.Update(tickMsg{})
	h.has("3 min ago")
}

func TestPagesByKeys(t *testing.T) {
	h := newHarness(t, tuitest.New(), 120, 40).load()
	for _, s := range []struct{ key, has string }{
		{"enter", "Processes"}, {"?", "States of a machine"}, {"esc", "Processes"}, {"esc", "▸ attic"}, {"tab", "[2 Tasks]"},
		{"enter", "Journal"}, {"esc", "[2 Tasks]"}, {"tab", "[3 Ask]"}, {"tab", "[? Help]"}, {"shift+tab", "[3 Ask]"}, {"esc", "press enter to type"}, {"1", "[1 Fleet]"},
	} {
		h.press(s.key).has(s.has)
	}
	for _, k := range []string{"q", "ctrl+c"} {
		_, cmd := h.Update(keyMsg(k))
		if cmd == nil || cmd() != tea.Quit() {
			t.Errorf("%s does not leave", k)
		}
	}
}

// TestNothingCanSteerTheTerminal puts escape sequences into every word that comes from elsewhere.
func TestNothingCanSteerTheTerminal(t *testing.T) {
	evil := "x\x1b[2J\x1b]0;owned\x07\x1b]52;c;ZXZpbA==\x1b\\\u009b31m\r\n\x08\x00\x7f\u202e\u200b\xff"
	b := tuitest.New()
	m := b.Fleet[0]
	m.Name, m.Group, m.GroupName, m.Role, m.Version, m.State.Detail = evil, evil, evil, fleet.Role(evil), evil, evil
	m.Host = fleet.HostFacts{OS: evil, Arch: evil, CPU: evil, GPUs: []fleet.GPU{{Name: evil}}}
	m.Server = &fleet.ServerFacts{Version: evil}
	m.Warnings, m.Runtime, m.State.Kind = []string{evil}, fleet.Runtime(evil), fleet.StateKind(evil)
	d := &m.Deployments[0]
	d.Alias, d.LastError, d.Log, d.State.Kind = evil, evil, []string{evil, "\x1b[31mred\x1b[0m" + evil}, fleet.StateReady
	b.Fleet = []fleet.Machine{m}
	b.Group = []fleet.Group{{Name: evil}}
	v := &b.List.Tasks[0]
	v.ID, v.Type, v.State, v.WorkerID, v.Pool = evil, evil, tasks.State(evil), evil, evil
	v.Error, v.Correlations = &tasks.Failure{Code: evil, Message: evil}, map[string]string{evil: evil}
	b.List.Tasks = b.List.Tasks[:1]
	b.Log.Entries[3].Kind = tasks.EntryKind(evil)
	b.Log.Entries[4].Data = []byte(fmt.Sprintf(`{"reason":%q,"workerId":%q}`, "\x1b[2J", "\u009b2J"))
	b.Log.Entries[5].Data = []byte(`"` + evil + `"`)
	b.Events[0].Text = evil
	answer := evil
	b.Done.Answer, b.Done.Machine, b.Done.Error, b.Done.State = &answer, evil, &tasks.Failure{Code: evil, Message: evil}, tasks.State(evil)

	clean := func(h *harness, where string) {
		t.Helper()
		h.exact()
		for _, r := range h.View() {
			if (r < ' ' && r != '\n') || (r >= 0x7f && r < 0xa0) || r == 0x202e || r == 0x200b {
				t.Fatalf("%s: the screen has %U:\n%q", where, r, h.View())
			}
		}
	}
	h := newHarness(t, b, 120, 40).load()
	clean(h, "fleet")
	clean(h.press("p"), "confirm")
	clean(h.press("y"), "notice")
	clean(h.press("/").typed(evil), "filter")
	clean(h.press("esc", "enter"), "machine")
	clean(h.press("2"), "tasks")
	clean(h.press("t"), "tasks by type")
	clean(h.press("c", "n", "enter"), "task")
	h.press("3")
	h.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(evil), Paste: true})
	clean(h, "prompt")
	clean(h.press("enter"), "answer")
	b.Err = fault.New(fault.Unavailable, "%s", evil).WithHint("%s", evil)
	h = newHarness(t, b, 120, 40).load()
	clean(h, "failure")
	clean(h.press("2"), "failure of tasks")
	b.Err, b.Fleet = nil, nil
	clean(newHarness(t, b, 120, 40).load(), "no machines")
}

func TestEveryRunErrorIsShown(t *testing.T) {
	b := tuitest.New()
	b.Done.State, b.Done.Answer, b.Done.Error = tasks.Failed, nil, &tasks.Failure{Code: "MODEL_CRASHED", Message: "it ended"}
	h := newHarness(t, b, 60, 20).load().press("3").typed("hi").press("enter")
	h.has("MODEL_CRASHED: it ended", "✕ failed")
}
