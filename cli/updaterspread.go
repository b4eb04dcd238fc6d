package cli

import (
	"context"
	"math/rand/v2"
	"time"

	"interlock.sh/installer/service"
	"interlock.sh/internal/retry"
)

// maxSpread bounds what the environment may ask for.
const maxSpread = 10 * time.Minute

// spread waits a random part of what the service's definition says, where the service manager cannot: a house
// full of machines that got their power back at once does not ask at once.
func (a *app) spread(ctx context.Context) error {
	within, err := time.ParseDuration(a.env.Getenv(service.SpreadVariable))
	if err != nil || within <= 0 {
		return nil // of systemd, which waits by itself, or started by hand
	}
	return retry.Sleep(ctx, a.clock, rand.N(min(within, maxSpread)))
}
