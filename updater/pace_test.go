package updater

import (
	"errors"
	"testing"
	"time"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
)

// Programs come no faster than the owner allows, also when the limit changes; by hand they come at once.
func TestADownloadKeepsTheOwnersLimit(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	big := func(r *rig) {
		b := build.Target{Program: build.Interlock, Version: "1.1.0", OS: "linux", Arch: "amd64", Channels: map[string]int{build.Stable: 100}}
		r.repo.Add(b, append([]byte("1.1.0 good "), make([]byte, size)...))
		r.repo.Publish()
	}
	for name, c := range map[string]struct {
		rate     func(r *rig) (int64, bool)
		min, max time.Duration
	}{
		"none":    {func(*rig) (int64, bool) { return 0, false }, 0, 0},
		"a limit": {func(*rig) (int64, bool) { return size / 100, true }, 99 * time.Second, 101 * time.Second},
		"a very low one": { // slower than a mirror may be: this machine is what is slow
			func(*rig) (int64, bool) { return 100, true }, size / 100 * time.Second, (size/100 + 9) * time.Second},
		"one that ends": {func(r *rig) (int64, bool) { return size / 100, r.clock.Now().Before(born.Add(30 * time.Second)) }, 29 * time.Second, 32 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			big(r)
			r.Rate = func() (int64, bool) { return c.rate(r) }
			u := r.updater()
			var took time.Duration
			u.reached = func(step string) {
				if step == "downloaded" {
					took = r.clock.Now().Sub(born)
				}
			}
			n, err := u.Run(t.Context())
			must(t, err)
			if n.Current != "1.1.0" || took < c.min || took > c.max {
				t.Errorf("%s is current; it took %v, want %v to %v", n.Current, took, c.min, c.max)
			}
		})
	}
	t.Run("nothing now, then something", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		big(r)
		limited := true
		r.Rate = func() (int64, bool) { return 0, limited }
		r.repo.Requests()
		r.want(r.run(), Available, "1.0.0")
		if n := r.fetched("targets/"); n != 0 {
			t.Errorf("%d downloads began", n)
		}
		limited = false
		r.want(r.run(), Current, "1.1.0")
	})
	t.Run("stopped in the middle", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		big(r)
		asked := 0
		r.Rate = func() (int64, bool) {
			if asked++; asked > 4 {
				return 0, true
			}
			return size / 10, true
		}
		r.want(r.run(), Available, "1.0.0")
	})
	t.Run("by hand", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		big(r)
		r.Rate = func() (int64, bool) { return 0, true }
		n, err := r.updater().Now(t.Context(), NowOptions{})
		must(t, err)
		r.want(n, Current, "1.1.0")
	})
	if !errors.Is(held(), fault.Unavailable) {
		t.Error("a limit is no reason to say that updates have stopped")
	}
}
