package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"interlock.sh/agent/localapi"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/tasks"
	"interlock.sh/worker"
)

const (
	doctorPage = 500             // queued tasks that are looked at
	clockLimit = 2 * time.Minute // of drift that nothing suffers from
)

func (a *app) tasksDoctorCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check authorization, clock, queue and workers, and a worker's spool", Args: cobra.NoArgs,
		Long: "Prove that the Tasks API is reachable and authorized, and report clock drift, queued work, workers, and\n" +
			"with --spool, on a worker's machine, whether its completion spool can be used and what it still owes.",
	}
	spool := cmd.Flags().String("spool", "", "folder of a worker's completion spool")
	asJSON := jsonFlag(cmd)
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ *cobra.Command, _ []string) error {
		checks := a.checkTasks(ctx, s)
		if *spool != "" {
			checks = append(checks, checkSpool(*spool))
		}
		return a.showChecks(checks, *asJSON)
	})
	return cmd
}

func (a *app) checkTasks(ctx context.Context, s *session) []localapi.Check {
	queued, err := s.ListTasks(ctx, client.TaskFilter{State: tasks.Queued, Limit: doctorPage})
	if err != nil {
		return []localapi.Check{failedCheck("tasks API", err)}
	}
	checks := []localapi.Check{{Name: "tasks API", OK: true, Detail: s.BaseURL() + " answers, and this credential may read tasks"}}
	drift := localapi.Check{Name: "clock", OK: true, Detail: fmt.Sprintf("within %v of the control plane", clockLimit)}
	if skew := s.ServerTimeSkew(); skew.Abs() > clockLimit {
		drift = localapi.Check{Name: "clock", Detail: fmt.Sprintf("%v away from the control plane's", skew.Abs().Round(time.Second)), Fix: "set the clock of this machine"}
	}
	checks = append(checks, drift)
	workers, err := s.TaskWorkers(ctx)
	if err != nil {
		return append(checks, failedCheck("workers", err))
	}
	return append(checks, localapi.Check{Name: "workers", OK: true, Detail: countWorkers(workers)}, a.checkQueue(queued, workers))
}

// countWorkers tells full from offline: a full worker is doing work.
func countWorkers(workers []tasks.WorkerView) string {
	n := map[string]int{}
	for _, w := range workers {
		n[w.State]++
	}
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, fmt.Sprintf("%d %s", n[state], state))
	}
	return cmp.Or(strings.Join(parts, ", "), "none registered")
}

// checkQueue finds queued work that no worker would claim: type, version and pool are compared literally.
func (a *app) checkQueue(queued tasks.List, workers []tasks.WorkerView) localapi.Check {
	claimable := map[string]bool{}
	for _, w := range workers {
		for _, h := range w.Handlers {
			for _, pool := range w.Pools {
				kind := kindOfWork(h.Type, h.SchemaVersion, pool)
				claimable[kind] = claimable[kind] || w.State == "ready" || w.State == "full"
			}
		}
	}
	stuck := map[string]int{}
	for _, t := range queued.Tasks {
		if kind := kindOfWork(t.Type, t.SchemaVersion, t.Pool); !claimable[kind] {
			stuck[kind]++
		}
	}
	depth := fmt.Sprint(len(queued.Tasks))
	if queued.Next != "" {
		depth = "more than " + depth
	}
	c := localapi.Check{Name: "queue", OK: len(stuck) == 0, Detail: depth + " queued"}
	if n := len(queued.Tasks); n > 0 {
		c.Detail += ", the oldest submitted " + a.ago(&queued.Tasks[n-1].CreatedAt)
	}
	for _, kind := range slices.Sorted(maps.Keys(stuck)) {
		c.Detail += fmt.Sprintf("; %d of %s have no worker that is up", stuck[kind], kind)
		c.Fix = "start a worker of this project with that literal type, version and pool: interlock tasks workers shows what there is"
	}
	return c
}

func kindOfWork(typ string, version int, pool string) string {
	return fmt.Sprintf("%s@%d in pool %s", typ, version, pool)
}

func checkSpool(dir string) localapi.Check {
	st, err := worker.CheckSpool(dir)
	if err != nil {
		return failedCheck("spool", err)
	}
	c := localapi.Check{Name: "spool", OK: st.SetAside == 0, Detail: fmt.Sprintf("can be read and written, owes %d reports", st.Pending)}
	if st.SetAside > 0 {
		c.Detail += fmt.Sprintf("; %d records could not be read and were set aside", st.SetAside)
		c.Fix = "look at the files in " + dir + " that were set aside; their tasks ended, or were lost, without them"
	}
	return c
}

func failedCheck(name string, err error) localapi.Check {
	var coded *fault.Error
	if errors.As(err, &coded) {
		return localapi.Check{Name: name, Detail: coded.Message, Fix: coded.Hint}
	}
	return localapi.Check{Name: name, Detail: err.Error()}
}
