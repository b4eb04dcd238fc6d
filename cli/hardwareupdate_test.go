package cli

import (
	"reflect"
	"testing"
	"time"

	"interlock.sh/agent/hardware"
	"interlock.sh/updater"
)

// A big model takes longer to load than a new version has to prove itself: it is not lost before it cannot get
// ready by itself.
func TestWhatAnUpdateSeesOfATaskWorker(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tiny := []string{"tiny"}
	for name, c := range map[string]struct {
		state hardware.State
		want  updater.Health
	}{
		"starting": {hardware.State{Running: true, Words: "starting"}, updater.Health{Up: true, Children: tiny, Why: "starting"}},
		"loading":  {hardware.State{Running: true, Words: "loading", Seen: &at}, updater.Health{Up: true, Heartbeat: at, Children: tiny, Why: "loading"}},
		"ready":    {hardware.State{Running: true, Ready: true, Words: "ready", Seen: &at}, updater.Health{Up: true, Heartbeat: at, Children: tiny}},
		"busy":     {hardware.State{Running: true, Ready: true, Busy: 2}, updater.Health{Up: true, Busy: true, Children: tiny}},
		"blocked":  {hardware.State{Running: true, Stuck: true, Words: "blocked: no llama-server"}, updater.Health{Up: true, Lost: tiny, Why: "blocked: no llama-server"}},
		"parked":   {hardware.State{Running: true, Stuck: true, Words: "parked"}, updater.Health{Up: true, Lost: tiny, Why: "parked"}},
		"ended":    {hardware.State{Words: "ended: revoked"}, updater.Health{Lost: tiny, Why: "ended: revoked"}},
	} {
		c.state.Alias, c.state.Version, c.want.Version = "tiny", "1.0.0", "1.0.0"
		if got := hardwareHealth(c.state); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
