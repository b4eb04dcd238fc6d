package server

import (
	"context"
	"log/slog"
	"time"

	"interlock.sh/internal/retry"
	"interlock.sh/server/ai"
	"interlock.sh/server/files"
)

const (
	choresEvery  = time.Minute
	collectEvery = time.Hour
	waitsEvery   = time.Second
)

// chores does what is due every minute and every hour until ctx ends. What fails is done the next time.
func chores(ctx context.Context, c Config, flushKeys func(context.Context) error, blobs *files.Store, runs *serverai.Service) error {
	try := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			c.Logger.WarnContext(ctx, "chore", slog.String("what", what), slog.Any("cause", err))
		}
	}
	collected := c.Clock.Now()
	for {
		if err := retry.Sleep(ctx, c.Clock, choresEvery); err != nil {
			return nil
		}
		try("record uses of keys", flushKeys(ctx))
		_, err := blobs.Expire(ctx)
		try("drop abandoned uploads", err)
		if now := c.Clock.Now(); now.Sub(collected) >= collectEvery {
			collected = now
			_, err := runs.Collect(ctx, now)
			try("delete what ended runs were asked", err)
		}
	}
}

// endWaits ends the waits of runs that are over until ctx does.
func endWaits(ctx context.Context, c Config, runs *serverai.Service) error {
	for {
		if err := retry.Sleep(ctx, c.Clock, waitsEvery); err != nil {
			return nil
		}
		if err := runs.EndWaits(ctx); err != nil && ctx.Err() == nil {
			c.Logger.WarnContext(ctx, "end waits of runs", slog.Any("cause", err))
		}
	}
}
