package store

import "time"

const (
	maxBatch  = 256
	maxQueued = 1024 // for each lane, so that a flood of telemetry never holds up a renewal
	maxWait   = 50 * time.Millisecond
)

// laneLoad is what the scheduler knows of one lane.
type laneLoad struct {
	queued int
	oldest time.Time // when the lane's first operation was queued; meaningless when queued is 0
}

// shares says how many operations of each lane go into the next batch. horizon is when the batch
// after this one can begin at the soonest: a lane that would by then have waited maxWait is due and
// gets its part of the batch now. The rest is filled by urgency.
func shares(lanes [laneCount]laneLoad, horizon time.Time, size int) (take [laneCount]int) {
	part := size / int(laneCount)
	left := size
	for i, l := range lanes {
		if l.queued > 0 && horizon.Sub(l.oldest) >= maxWait {
			take[i] = min(l.queued, part)
			left -= take[i]
		}
	}
	for i, l := range lanes {
		more := min(l.queued-take[i], left)
		take[i] += more
		left -= more
	}
	return take
}
