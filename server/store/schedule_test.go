package store

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"interlock.sh/internal/clock"
)

func TestShares(t *testing.T) {
	fresh, due := start, start.Add(-maxWait)
	for name, c := range map[string]struct {
		lanes [laneCount]laneLoad
		want  [laneCount]int
	}{
		"nothing queued":                 {},
		"all fit":                        {lanes: [laneCount]laneLoad{{1, fresh}, {2, fresh}, {3, fresh}, {4, fresh}}, want: [laneCount]int{1, 2, 3, 4}},
		"urgent ones fill the batch":     {lanes: [laneCount]laneLoad{{300, fresh}, {1, fresh}, {0, fresh}, {9, fresh}}, want: [laneCount]int{256, 0, 0, 0}},
		"by urgency":                     {lanes: [laneCount]laneLoad{{200, fresh}, {50, fresh}, {50, fresh}, {9, fresh}}, want: [laneCount]int{200, 50, 6, 0}},
		"a lane that waited gets a part": {lanes: [laneCount]laneLoad{{300, fresh}, {0, fresh}, {0, fresh}, {900, due}}, want: [laneCount]int{192, 0, 0, 64}},
		"a nanosecond short of due":      {lanes: [laneCount]laneLoad{{300, fresh}, {0, fresh}, {0, fresh}, {900, due.Add(1)}}, want: [laneCount]int{256, 0, 0, 0}},
		"all waited: urgency again":      {lanes: [laneCount]laneLoad{{900, due}, {900, due}, {2, due}, {900, due}}, want: [laneCount]int{126, 64, 2, 64}},
		"an old flood leaves room":       {lanes: [laneCount]laneLoad{{5, fresh}, {0, fresh}, {7, fresh}, {1024, due}}, want: [laneCount]int{5, 0, 7, 244}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := shares(c.lanes, start, maxBatch); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestSharesNeverWasteNorStarve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var lanes [laneCount]laneLoad
		total := 0
		for i := range lanes {
			lanes[i].queued = rapid.IntRange(0, maxQueued).Draw(t, "queued")
			lanes[i].oldest = start.Add(-time.Duration(rapid.IntRange(0, 100).Draw(t, "waited ms")) * time.Millisecond)
			total += lanes[i].queued
		}
		taken := 0
		for i, n := range shares(lanes, start, maxBatch) {
			if n < 0 || n > lanes[i].queued {
				t.Fatalf("lane %d: %d of %d", i, n, lanes[i].queued)
			}
			if n == 0 && lanes[i].queued > 0 && start.Sub(lanes[i].oldest) >= maxWait {
				t.Fatalf("lane %d waited and got nothing", i)
			}
			taken += n
		}
		if taken != min(total, maxBatch) {
			t.Fatalf("%d of %d in a batch of %d", taken, total, maxBatch)
		}
	})
}

// A flood of renewals holds telemetry up for 50 ms and no longer, counted to the begin of a batch.
func TestNoLaneWaitsOver50Milliseconds(t *testing.T) {
	c := clock.NewFake(start)
	w := newGroupWriter(nil, "", c, nil, start)
	add := func(lane Lane, n int) {
		for range n {
			w.slots[lane] <- struct{}{}
			w.enqueue(&op{ctx: context.Background(), lane: lane, at: c.Now()})
		}
	}
	const batchTakes = 10 * time.Millisecond
	w.took = batchTakes
	add(LaneTelemetry, 100)
	for waited := time.Duration(0); ; waited += batchTakes {
		if waited > maxWait {
			t.Fatalf("nothing of the lane after %v", waited)
		}
		add(LaneRenew, maxBatch)
		batch, _ := w.take()
		if len(batch) != maxBatch {
			t.Fatalf("a batch of %d", len(batch))
		}
		if last := batch[maxBatch-1]; last.lane == LaneTelemetry {
			if waited != maxWait-batchTakes {
				t.Errorf("the lane's turn came after %v", waited)
			}
			break
		}
		c.Advance(batchTakes)
	}
	if n := len(w.queue[LaneTelemetry]); n != 100-maxBatch/int(laneCount) {
		t.Errorf("%d are left", n)
	}
}
