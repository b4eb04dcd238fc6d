package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/tasks"
)

func (a *app) tasksCmd() *cobra.Command {
	return noun("tasks", "Durable tasks: submit, follow, cancel",
		a.tasksListCmd(), a.tasksSubmitCmd(), a.tasksGetCmd(), a.tasksWatchCmd(), a.tasksCancelCmd(), a.tasksWorkersCmd(), a.tasksDoctorCmd())
}

func (a *app) tasksListCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the newest tasks of the project", Args: cobra.NoArgs}
	asJSON := jsonFlag(cmd)
	var filter client.TaskFilter
	f := cmd.Flags()
	f.IntVar(&filter.Limit, "limit", 50, "how many, at most 500")
	f.StringVar(&filter.Before, "before", "", "go on behind this cursor, the next of the page before")
	f.StringVar(&filter.Type, "type", "", "only tasks of this type")
	state := f.String("state", "", "only tasks in this state")
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ *cobra.Command, _ []string) error {
		filter.State = tasks.State(*state)
		page, err := s.ListTasks(ctx, filter)
		if err != nil {
			return err
		}
		if *asJSON {
			page.Tasks = some(page.Tasks)
			return a.printJSON(page)
		}
		if len(page.Tasks) == 0 {
			a.empty("no such tasks: submit one with `interlock tasks submit <type> --input JSON`")
			return nil
		}
		var rows [][]string
		for _, t := range page.Tasks {
			rows = append(rows, []string{
				t.ID, fmt.Sprintf("%s@%d", t.Type, t.SchemaVersion), string(t.State), fmt.Sprintf("%d/%d", t.Attempts, t.MaxAttempts), t.WorkerID, a.ago(&t.CreatedAt),
			})
		}
		a.table([]string{"TASK", "TYPE", "STATE", "ATTEMPTS", "WORKER", "SUBMITTED"}, rows)
		if page.Next != "" {
			a.note("more with --before %s", page.Next)
		}
		return nil
	})
	return cmd
}

func (a *app) tasksSubmitCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "submit <type>", Short: "Submit one task", Args: exactly(1),
		Example: "  interlock tasks submit demo/hello --input '{\"name\":\"Ada\"}' --idempotency-key hello-ada",
	}
	asJSON := jsonFlag(cmd)
	var req tasks.SubmitRequest
	f := cmd.Flags()
	input := f.String("input", "", "the input, any JSON value; - reads it from the standard input")
	f.IntVar(&req.SchemaVersion, "schema", 1, "version of the input's schema")
	f.StringVar(&req.IdempotencyKey, "idempotency-key", "", "the same key and the same request return the same task")
	f.StringVar(&req.Pool, "pool", "", "only workers of this pool claim it (default "+tasks.DefaultPool+")")
	f.IntVar(&req.Priority, "priority", 0, "0 to 9, higher first")
	f.IntVar(&req.MaxAttempts, "max-attempts", 0, fmt.Sprintf("how often it may be tried (default %d)", tasks.DefaultMaxAttempts))
	delay := f.Duration("delay", 0, "wait this long first")
	expires := f.Duration("expires-in", 0, "give up when it is not done by then")
	submit := a.online(func(ctx context.Context, s *session, _ *cobra.Command, _ []string) error {
		t, err := s.SubmitTask(ctx, req)
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(t)
		}
		a.say("%s", t.ID)
		a.note("%s@%d is %s; follow it with `interlock tasks watch %s`", t.Type, t.SchemaVersion, t.State, t.ID)
		return nil
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req.Type, req.DelayMs, req.ExpiresInMs = args[0], delay.Milliseconds(), expires.Milliseconds()
		var err error
		if req.Input, err = a.taskInput(*input); err != nil {
			return err
		}
		checked := req
		if err := checked.Normalize(); err != nil { // the defaults stay the server's to fill in
			return err
		}
		return submit(cmd, args)
	}
	return cmd
}

// taskInput is the JSON of --input.
func (a *app) taskInput(flag string) (json.RawMessage, error) {
	text := []byte(flag)
	if flag == "-" {
		var err error
		if text, err = io.ReadAll(io.LimitReader(a.In, tasks.MaxInline+1)); err != nil {
			return nil, fmt.Errorf("read the input: %w", err)
		}
	}
	if len(text) == 0 {
		return nil, nil
	}
	if len(text) <= tasks.MaxInline && !json.Valid(text) {
		var v any
		err := json.Unmarshal(text, &v)
		return nil, fault.Wrap(err, fault.Malformed, "--input is no JSON: %v", err).WithField("input").
			WithHint("quote it for the shell, as in --input '{\"name\":\"Ada\"}'")
	}
	return text, nil
}

func (a *app) tasksGetCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "get <task-id>", Short: "Show one task with its result", Args: exactly(1)}
	asJSON := jsonFlag(cmd)
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ *cobra.Command, args []string) error {
		t, err := s.Task(ctx, args[0])
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(t)
		}
		a.taskFacts(t)
		return nil
	})
	return cmd
}

func (a *app) taskFacts(t tasks.View) {
	failure, progress, cancel := "", "", ""
	if t.Error != nil {
		failure = t.Error.Code + ": " + t.Error.Message
	}
	if t.Progress != nil {
		progress = fmt.Sprintf("%g%% %s", t.Progress.Percent, t.Progress.Message)
	}
	if t.CancelRequested {
		cancel = "requested " + t.CancelReason
	}
	a.facts(
		"task", t.ID, "type", fmt.Sprintf("%s@%d", t.Type, t.SchemaVersion), "state", string(t.State), "pool", t.Pool,
		"attempts", fmt.Sprintf("%d of %d", t.Attempts, t.MaxAttempts), "worker", t.WorkerID, "effect key", t.EffectKey,
		"effect safety", string(t.EffectSafety), "progress", progress, "cancel", cancel, "submitted", stamp(&t.CreatedAt),
		"started", stamp(t.StartedAt), "ended", stamp(t.EndedAt), "expires", stamp(t.ExpiresAt), "input", string(t.Input),
		"result", string(t.Result), "error", failure)
}

// stamp is a time in the reader's zone; empty when it is not known.
func stamp(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05 MST")
}

func (a *app) tasksCancelCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "cancel <task-id>", Short: "Ask a task to stop", Args: exactly(1)}
	asJSON := jsonFlag(cmd)
	reason := cmd.Flags().String("reason", "", "why, for the journal")
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ *cobra.Command, args []string) error {
		t, err := s.CancelTask(ctx, args[0], *reason)
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(t)
		}
		a.say("%s is %s", t.ID, t.State)
		if !t.State.Terminal() {
			a.note("its worker has been asked to stop; follow it with `interlock tasks watch %s`", t.ID)
		}
		return nil
	})
	return cmd
}

func (a *app) tasksWorkersCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "workers", Short: "Show ready, full, draining and offline workers", Args: cobra.NoArgs}
	asJSON := jsonFlag(cmd)
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ *cobra.Command, _ []string) error {
		workers, err := s.TaskWorkers(ctx)
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(map[string]any{"workers": some(workers)})
		}
		if len(workers) == 0 {
			a.empty("no workers yet: enroll a machine, or start one with a task-worker key")
			return nil
		}
		a.workerTable(workers)
		return nil
	})
	return cmd
}
