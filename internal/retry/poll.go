package retry

import (
	"context"
	"errors"
	"time"

	"interlock.sh/internal/clock"
)

// ErrLate is the end of a Poll that looked in vain.
var ErrLate = errors.New("it did not come about in time")

// Poll looks every so often until look is done, or fails, and returns what it said. A look after within that is
// neither ends it with ErrLate; the end of ctx with its cause. The first look is at once, and there is always one.
func Poll(ctx context.Context, c clock.Clock, every, within time.Duration, look func() (done bool, err error)) error {
	end := c.Now().Add(within)
	for {
		if done, err := look(); done || err != nil {
			return err
		}
		if !c.Now().Before(end) {
			return ErrLate
		}
		if err := Sleep(ctx, c, every); err != nil {
			return err
		}
	}
}
