package api_test

import (
	"path/filepath"
	"testing"
	"time"

	kit "interlock.sh/internal/testkit/plane"
)

// A running control plane deletes what a run was asked a day after its end, and keeps the models.
func TestBodiesOfRunsGoByThemselves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	blobs := func() int {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(w.Data, "files", "blobs", "sha256", "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	models := blobs()
	w.run("hi")
	w.machine.Begin(w.machine.Take()).Finish(1)
	if models == 0 || blobs() != models+1 {
		t.Fatalf("%d blobs, %d of them models", blobs(), models)
	}
	w.clock.Advance(25 * time.Hour)
	kit.Await(t, "the body is deleted", func() bool { return blobs() == models })
}
