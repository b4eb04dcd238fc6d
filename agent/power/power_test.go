package power

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"interlock.sh/fleet/schedule"
)

func show[T comparable](v *T) any {
	if v == nil {
		return "unknown"
	}
	return *v
}

func TestMainsOfEveryKindOfMachine(t *testing.T) {
	type supply map[string]string
	for _, c := range []struct {
		name string
		all  []supply
		want any
	}{
		{"a desktop", nil, true},
		{"a desktop with a mouse", []supply{{"type": "Battery", "scope": "Device", "status": "Discharging"}}, true},
		{"a laptop on its charger", []supply{{"type": "Mains", "online": "1"}, {"type": "Battery", "status": "Charging"}}, true},
		{"a laptop without it", []supply{{"type": "Mains", "online": "0"}, {"type": "Battery", "status": "Discharging"}}, false},
		{"one of two chargers", []supply{{"type": "USB", "online": "0"}, {"type": "USB", "online": "1"}, {"type": "Battery", "status": "Full"}}, true},
		{"a battery that says nothing, unplugged", []supply{{"type": "Mains", "online": "0"}, {"type": "Battery", "status": "Unknown"}}, false},
		{"a battery alone, discharging", []supply{{"type": "Battery", "status": "Discharging"}}, false},
		{"a battery alone, held at a limit", []supply{{"type": "Battery", "status": "Not charging"}}, true},
		{"a battery alone that says nothing", []supply{{"type": "Battery"}}, "unknown"},
		{"an empty battery bay", []supply{{"type": "Battery", "present": "0", "status": "Unknown"}}, true},
	} {
		dir := t.TempDir()
		for i, s := range c.all {
			at := filepath.Join(dir, string(rune('a'+i)))
			if err := os.Mkdir(at, 0o700); err != nil {
				t.Fatal(err)
			}
			for name, v := range s {
				if err := os.WriteFile(filepath.Join(at, name), []byte(v+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := show(supplies(dir)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if got := show(supplies(filepath.Join(t.TempDir(), "none"))); got != "unknown" {
		t.Errorf("a kernel without a list: %v", got)
	}
}

func TestWhatMacOSSays(t *testing.T) {
	for text, want := range map[string]any{
		"Now drawing from 'AC Power'\n -InternalBattery-0 (id=1)\t100%; charged;": true,
		"Now drawing from 'Battery Power'\n":                                      false, "Now drawing from 'UPS Power'\n": false,
		"Now drawing from 'Fusion'\n": "unknown", "Now drawing from 'AC Pow": "unknown", "": "unknown",
	} {
		if got := show(parsePmset(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	for text, want := range map[string]any{
		`    | |   "HIDIdleTime" = 90000000000` + "\n": 90 * time.Second, `"HIDIdleTime" = 99999999999999999999`: "unknown", "": "unknown",
	} {
		if got := show(parseIOReg(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestOnlyWhatIsNeededIsMeasuredAndWithinTheDeadline(t *testing.T) {
	if got := new(Meter).Read(t.Context(), Need{}); got != (schedule.Facts{}) {
		t.Errorf("nothing was asked: %+v", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	stuck := make(chan struct{})
	defer close(stuck)
	var p probe[bool]
	if got := p.bounded(ctx, func(context.Context) *bool { <-stuck; return new(true) }); got != nil {
		t.Error("a measurement that hangs gave an answer")
	}
}

func TestAMeasurementThatHangsIsOutOnce(t *testing.T) {
	var p probe[bool]
	var begun atomic.Int32
	stuck := make(chan struct{})
	hangs := func(context.Context) *bool { begun.Add(1); <-stuck; return new(true) }
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if got := p.bounded(ctx, hangs); got != nil {
			t.Error("a measurement that hangs gave an answer")
		}
		cancel()
	}
	if n := begun.Load(); n != 1 {
		t.Errorf("it was begun %d times", n)
	}
	close(stuck)
	if got := p.bounded(t.Context(), hangs); got == nil || !*got { // the one that was out, or another
		t.Error("after it went on there is no answer")
	}
	before := begun.Load()
	if got := p.bounded(t.Context(), hangs); got == nil || begun.Load() != before+1 {
		t.Errorf("the next look did not measure anew: %d", begun.Load())
	}
}
