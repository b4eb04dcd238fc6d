package updater

import (
	"os"
	"path/filepath"
	"testing"

	"interlock.sh/internal/testkit/tufrepo"
)

// Without its state the machine still knows below which versions nothing is taken: a mirror that lags behind, and
// was never asked before, cannot bring an old set back.
func TestALostStateKeepsTheFloors(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(path string) error{
		"damaged": func(path string) error { return os.WriteFile(path, []byte(`{"schema":1,"floo`), 0o600) },
		"empty":   func(path string) error { return os.Truncate(path, 0) },
		"gone":    os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.release("1.1.0", "good")
			old := tufrepo.Copy(r.repo.Files())
			r.release("1.2.0", "good")
			r.want(r.run(), Current, "1.2.0")
			must(t, lose(folder(r.app).stateFile()))
			fleetOf(t, r, old)
			n := r.run()
			r.want(n, Stopped, "1.2.0")
			r.why(n, "older metadata than this machine has seen")
			fleetOf(t, r, old, r.repo)
			r.release("1.3.0", "good")
			r.want(r.run(), Current, "1.3.0")
		})
	}
}

// New keys make the old numbers void, also when nothing but files tells them.
func TestALostStateKeepsNoFloorOfOldKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, v := range []string{"1.1.0", "1.2.0", "1.3.0"} {
		r.release(v, "good")
	}
	r.want(r.run(), Current, "1.3.0")
	must(t, os.Remove(folder(r.app).stateFile()))
	for _, role := range []string{tufrepo.Timestamp, tufrepo.Snapshot} {
		r.repo.SetKeys(role, 1, tufrepo.NewKey(t))
	}
	r.repo.Timestamp.Signed.Version, r.repo.Snapshot.Signed.Version = 0, 0 // numbers begin again
	r.repo.Publish(tufrepo.Root)
	r.release("1.4.0", "good")
	r.want(r.run(), Current, "1.4.0")
}

// The version that failed last is not tried again because the state is lost.
func TestALostStateKeepsWhatFailedLast(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.release("1.1.0", "dead")
	n := r.run()
	r.want(n, Reverted, "1.0.0")
	why := n.Quarantined["1.1.0"]
	restarts := r.saw("den.client").Restarts
	must(t, os.WriteFile(filepath.Join(r.app, "trust", "state.json"), []byte("{"), 0o600))
	n = r.run()
	r.want(n, Reverted, "1.0.0")
	if got := n.Quarantined["1.1.0"]; why == "" || got == "" {
		t.Errorf("quarantined because of %q, now %q", why, got)
	}
	if now := r.saw("den.client").Restarts; now != restarts {
		t.Errorf("the service was started anew %d times", now-restarts)
	}
}
