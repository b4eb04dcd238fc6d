package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/internal/retry"
	"interlock.sh/tasks"
)

// pollEvery is how long to wait for a hint before reading the truth anyway: a stream may be held up
// by something in between.
const pollEvery = 3 * time.Second

// hints opens an event stream beside the caller and turns each event into at most one waiting hint.
// stop ends the stream and returns once it has ended.
func hints(ctx context.Context, c *client.Client, path, from string) (hint <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ch, done := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(done)
		// An error of the stream says nothing: the reads beside it meet the same and report it.
		_ = c.Follow(ctx, path, from, func(client.Event) error {
			select {
			case ch <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	return ch, func() { cancel(); <-done }
}

func (a *app) tasksWatchCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "watch <task-id>", Short: "Follow a task's journal until it ends; exit 0 when it succeeded", Args: exactly(1),
	}
	asJSON := cmd.Flags().Bool("json", false, "print each journal entry as one line of JSON, then the task")
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ *cobra.Command, args []string) error {
		show := a.showEntry
		if *asJSON {
			show = func(e tasks.Entry) error { return a.printJSONLine(e) }
		}
		if err := a.followJournal(ctx, s.Client, args[0], show); err != nil {
			if ctx.Err() != nil {
				a.note("the task goes on; `interlock tasks get %s` shows it", args[0])
			}
			return err
		}
		t, err := s.Task(ctx, args[0])
		if err != nil {
			return err
		}
		if *asJSON {
			err = a.printJSONLine(t)
		} else {
			a.facts("state", string(t.State), "result", string(t.Result))
		}
		return errors.Join(err, taskFailure(t))
	})
	return cmd
}

// followJournal shows a task's journal from its beginning until the task has ended. The journal is
// read by GET; the stream only says when.
func (a *app) followJournal(ctx context.Context, c *client.Client, id string, show func(tasks.Entry) error) error {
	var after int64
	hint, stop := hints(ctx, c, client.TaskWatchPath(id), "")
	defer stop()
	back := retry.Backoff{Base: time.Second, Cap: 10 * time.Second}
	for {
		page, err := c.TaskJournal(ctx, id, after, 200)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case client.Transient(err):
			if back.Tries() == 0 {
				a.note("%v; trying again", err)
			}
			if err := retry.Sleep(ctx, a.clock, back.Next(client.RetryAfter(err))); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		back.Reset()
		for _, e := range page.Entries {
			if err := show(e); err != nil {
				return err
			}
			after = e.Seq
		}
		if len(page.Entries) > 0 {
			continue
		}
		if page.State.Terminal() {
			return nil
		}
		select {
		case <-hint:
		case <-a.clock.After(pollEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (a *app) showEntry(e tasks.Entry) error {
	data := ""
	if len(e.Data) > 0 && string(e.Data) != "null" {
		data = journalText(e)
	}
	line := fmt.Sprintf("%s  %4s  %-16s %s", e.At.Local().Format("15:04:05.000"), strconv.FormatInt(e.Seq, 10), e.Kind, data)
	a.say("%s", strings.TrimRight(line, " "))
	return nil
}

// journalText is what a person wants of an entry's data: its message or lines, else all of it.
func journalText(e tasks.Entry) string {
	switch e.Kind {
	case tasks.EntryLog:
		var log struct {
			Lines []string `json:"lines"`
		}
		if json.Unmarshal(e.Data, &log) == nil && len(log.Lines) > 0 {
			return strings.Join(log.Lines, " ⏎ ")
		}
	case tasks.EntryProgress:
		var p tasks.Progress
		if json.Unmarshal(e.Data, &p) == nil {
			return fmt.Sprintf("%g%% %s", p.Percent, p.Message)
		}
	}
	return string(e.Data)
}

// taskFailure is the error for a task that ended otherwise than well.
func taskFailure(t tasks.View) error {
	return endedBadly("task "+t.ID, t.State, t.Error)
}

func endedBadly(what string, state tasks.State, failure *tasks.Failure) error {
	switch {
	case state == tasks.Succeeded:
		return nil
	case failure != nil:
		return fault.New(fault.Conflict, "%s ended %s: %s (%s)", what, state, failure.Message, failure.Code)
	case state == tasks.OutcomeUnknown:
		return fault.New(fault.Unknown, "%s ended %s: its effect may or may not have happened", what, state).
			WithHint("look at what it was to change before you submit it again")
	}
	return fault.New(fault.Conflict, "%s ended %s", what, state)
}

func (a *app) workerTable(workers []tasks.WorkerView) {
	var rows [][]string
	for _, w := range workers {
		var handles []string
		for _, h := range w.Handlers {
			handles = append(handles, fmt.Sprintf("%s@%d", h.Type, h.SchemaVersion))
		}
		rows = append(rows, []string{
			w.WorkerID, w.State, fmt.Sprintf("%d/%d", w.Running, w.MaxConcurrent), strings.Join(handles, ","), strings.Join(w.Pools, ","),
			w.Version, a.ago(&w.LastSeen),
		})
	}
	a.table([]string{"WORKER", "STATE", "BUSY", "HANDLES", "POOLS", "VERSION", "SEEN"}, rows)
}
