// Command program plays a machine under NIGHTSHIFT_HOME until it is ended: the scene that its argument names, by
// default three agents, of which one serves, one waits for its hours and one is of an older version. It is for
// looking at Nightshift by hand and for the check of the real panel.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"interlock.sh/agent/enrollment"
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
	name := "several"
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	play, ok := scenes[name]
	if !ok {
		return fmt.Errorf("there is no scene %q; the scenes are %s", name, strings.Join(slices.Sorted(maps.Keys(scenes)), ", "))
	}
	for _, r := range play() {
		if err := r.Start(home); err != nil {
			return err
		}
		if r.ends {
			if err := r.Stop(); err != nil {
				return err
			}
			continue
		}
		defer r.Stop() //nolint:errcheck // it ends with this process
		all.Go(func() { tell(ctx, r.Agent) })
	}
	fmt.Printf("the scene %s plays under %s\n", name, home)
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
