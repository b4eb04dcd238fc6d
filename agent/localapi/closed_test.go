package localapi_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"interlock.sh/agent/localapi"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/ownersocket"
)

// shut is a door behind which nobody listens, of each kind: none at all, and one that was left.
func shut(t *testing.T, left bool) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "la") // not t.TempDir: a socket's path has 104 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	if left {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		_ = l.Close()
	}
	return path
}

// A click that falls into the moment in which an agent is replaced is no click lost, nor one made twice.
func TestAWishWaitsWhileTheAgentsDoorIsClosedForAMoment(t *testing.T) {
	for name, left := range map[string]bool{"no door": false, "one that was left": true} {
		t.Run(name, func(t *testing.T) {
			path := shut(t, left)
			a, asked := &stub{}, 0
			c := localapi.DialRunning(path, func() bool {
				if asked++; asked == 2 { // the next image opens its door
					l, err := ownersocket.Listen(path)
					if err != nil {
						t.Error(err)
						return false
					}
					srv, ended := &http.Server{Handler: localapi.Handler(a)}, make(chan struct{})
					go func() { defer close(ended); _ = srv.Serve(l) }()
					t.Cleanup(func() { _ = srv.Close(); <-ended })
				}
				return true
			})
			if st, err := c.Pause(t.Context(), time.Hour); err != nil || st.Owner != fleet.Paused || a.pause != time.Hour || asked != 2 {
				t.Errorf("%+v, %v; asked %d times whether it runs", st, err, asked)
			}
		})
	}
}

func TestADoorThatStaysClosedIsGivenUp(t *testing.T) {
	path := shut(t, false)
	for name, c := range map[string]struct {
		runs  func(looks int) bool
		stop  time.Duration // when whoever asks gives up, 0 for never
		hint  string
		after time.Duration
	}{
		"nobody runs":           {func(int) bool { return false }, 0, "start it: interlock agent start", 0},
		"its process ends":      {func(looks int) bool { return looks < 4 }, 0, "start it: interlock agent start", 150 * time.Millisecond},
		"it runs and stays mum": {func(int) bool { return true }, 0, "it may be starting: try again in a moment; else interlock agent stop, then interlock agent start", 8 * time.Second},
		"the caller has enough": {func(int) bool { return true }, time.Second, "it may be starting: try again in a moment; else interlock agent stop, then interlock agent start", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, began, looks := t.Context(), time.Now(), 0
				if c.stop > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.stop)
					defer cancel()
				}
				_, err := localapi.DialRunning(path, func() bool { looks++; return c.runs(looks) }).SetOwner(ctx, fleet.Paused)
				if !errors.Is(err, fault.Unavailable) || fault.Of(err).Hint != c.hint || !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%v", err)
				}
				if took := time.Since(began); took < c.after || took > c.after+100*time.Millisecond {
					t.Errorf("given up after %v", took)
				}
			})
		})
	}
}
