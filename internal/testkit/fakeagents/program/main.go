// Command program plays a machine with three agents under NIGHTSHIFT_HOME until it is ended: one that serves,
// one that the owner paused by hours, and one of an older version. It is for looking at Nightshift by hand and
// for the check of the real panel.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/localapi"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
	"interlock.sh/internal/testkit/fakeagents"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fakeagents:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if os.Getenv(enrollment.EnvHome) == "" {
		return errors.New(enrollment.EnvHome + " is not set; a machine's own home is left alone")
	}
	home, err := enrollment.DefaultHome()
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	defer all.Wait()
	for _, a := range machine() {
		if err := a.Start(home); err != nil {
			return err
		}
		defer a.Stop() //nolint:errcheck // it ends with this process
		all.Go(func() { tell(ctx, a) })
	}
	fmt.Println("three agents under", home)
	<-ctx.Done()
	return nil
}

// tell prints each wish of the owner as it comes.
func tell(ctx context.Context, a *fakeagents.Agent) {
	for {
		next := a.Changed()
		select {
		case <-ctx.Done():
			return
		case <-next:
			wish, n := a.Wish()
			fmt.Printf("%s: wish %d is %s, held %v\n", a.Group(), n, wish.Mode, wish.Hold != nil)
		}
	}
}

func machine() []*fakeagents.Agent {
	serves := fakeagents.Ready("support-bot", "smollm2-135m", 38.4)
	serves.Change(func(s *localapi.Status, _ *fleet.Heartbeat) {
		s.Update = &fleet.UpdateReport{State: "available", Version: "0.5.0", At: time.Now()}
	})
	rests := fakeagents.Ready("night-writer", "qwen3-8b", 21)
	rests.Change(func(s *localapi.Status, _ *fleet.Heartbeat) {
		s.Wish.Mode, s.Wish.OnMains = schedule.Window, true
		from := time.Now().Add(3 * time.Hour)
		s.Wish.Windows = []schedule.Span{{Start: from.Format("15:04"), End: from.Add(8 * time.Hour).Format("15:04")}}
	})
	older := fakeagents.Ready("workshop", "phi-4", 12.5)
	older.Older = true
	older.Change(func(*localapi.Status, *fleet.Heartbeat) {})
	return []*fakeagents.Agent{serves, rests, older}
}
