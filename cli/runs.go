package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"interlock.sh/ai"
)

func (a *app) runsCmd() *cobra.Command {
	return noun("runs", "AI runs: read, list, cancel", a.runsGetCmd(), a.runsListCmd(), a.runsCancelCmd())
}

func (a *app) runsGetCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "get <run-id>", Short: "Show a run: its answer, and the evidence beside it", Args: exactly(1)}
	asJSON := jsonFlag(cmd)
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ *cobra.Command, args []string) error {
		run, err := s.Run(ctx, args[0])
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(run)
		}
		failure, usage, duration, waiting := "", unknown, unknown, ""
		if run.Waiting != nil {
			waiting = waits(*run.Waiting)
		}
		if run.Error != nil {
			failure = run.Error.Code + ": " + run.Error.Message
		}
		if run.Usage != nil {
			usage = fmt.Sprintf("%d prompt, %d answer, %d in all", run.Usage.PromptTokens, run.Usage.CompletionTokens, run.Usage.TotalTokens)
		}
		if run.DurationMs > 0 {
			duration = brief(time.Duration(run.DurationMs) * time.Millisecond)
		}
		a.facts("run", run.ID, "task", run.TaskID, "state", string(run.State), "waits for", waiting, "model", run.Model, "deployment", run.Deployment,
			"policy", string(run.RoutePolicy), "route", run.Route, "machine", orUnknown(run.Machine), "worker", run.WorkerID,
			"attempt", count(run.Attempt), "tokens", usage, "tok/s", rate(run.TokensPerSecond), "duration", duration,
			"usage event", orUnknown(run.UsageEventID), "submitted", stamp(&run.CreatedAt), "ended", stamp(run.EndedAt), "error", failure)
		if run.Answer != nil {
			fmt.Fprintln(a.Out)
			(&answer{out: a.Out, clean: isTerminal(a.Out), note: a.note}).finish(run)
		}
		return nil
	})
	return cmd
}

func (a *app) runsListCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the newest runs of the project", Args: cobra.NoArgs}
	asJSON, page := jsonFlag(cmd), pageFlags(cmd)
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ *cobra.Command, _ []string) error {
		list, err := s.Runs(ctx, page.before, page.limit)
		if err != nil {
			return err
		}
		if *asJSON {
			list.Runs = some(list.Runs)
			return a.printJSON(list)
		}
		if len(list.Runs) == 0 {
			a.empty("no runs yet: ask something with `interlock ask \"…\" --model <alias>`")
			return nil
		}
		var rows [][]string
		for _, r := range list.Runs {
			state := string(r.State)
			if r.Waiting != nil {
				state += ": " + r.Waiting.Reason
			}
			rows = append(rows, []string{r.ID, state, r.Deployment, r.Machine, total(r.Usage), rate(r.TokensPerSecond), a.ago(&r.CreatedAt)})
		}
		a.table([]string{"RUN", "STATE", "DEPLOYMENT", "MACHINE", "TOKENS", "TOK/S", "SUBMITTED"}, rows)
		a.more(list.Next)
		return nil
	})
	return cmd
}

func (a *app) runsCancelCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "cancel <run-id>", Short: "Ask a run to stop", Args: exactly(1)}
	asJSON := jsonFlag(cmd)
	reason := cmd.Flags().String("reason", "", "why, for the journal")
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ *cobra.Command, args []string) error {
		run, err := s.CancelRun(ctx, args[0], *reason)
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(run)
		}
		a.say("%s is %s", run.ID, run.State)
		return nil
	})
	return cmd
}

func (a *app) usageCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "usage", Short: "Show what was used: one event for each run that reached a model", Args: cobra.NoArgs}
	asJSON, page := jsonFlag(cmd), pageFlags(cmd)
	cmd.RunE = a.online(func(ctx context.Context, s *session, _ *cobra.Command, _ []string) error {
		list, err := s.Usage(ctx, page.before, page.limit)
		if err != nil {
			return err
		}
		if *asJSON {
			list.Events = some(list.Events)
			return a.printJSON(list)
		}
		a.say("%d runs, %d tokens (%d prompt, %d answer)", list.Runs, list.Total.TotalTokens, list.Total.PromptTokens, list.Total.CompletionTokens)
		if len(list.Events) == 0 {
			return nil
		}
		var rows [][]string
		for _, e := range list.Events {
			took := ""
			if e.DurationMs > 0 {
				took = brief(time.Duration(e.DurationMs) * time.Millisecond)
			}
			rows = append(rows, []string{
				stamp(&e.At), e.RunID, e.Route, string(e.RoutePolicy), e.Deployment, e.WorkerID, fmt.Sprint(e.Attempt), string(e.State), total(&e.Usage), took, e.ID,
			})
		}
		a.table([]string{"AT", "RUN", "ROUTE", "POLICY", "DEPLOYMENT", "MACHINE", "ATTEMPT", "STATE", "TOKENS", "TOOK", "EVENT"}, rows)
		a.more(list.Next)
		return nil
	})
	return cmd
}

func total(u *ai.Usage) string {
	if u == nil {
		return unknown
	}
	return fmt.Sprint(u.TotalTokens)
}

type page struct {
	before string
	limit  int
}

// pageFlags adds the flags of a listing that comes in pages.
func pageFlags(cmd *cobra.Command) *page {
	p := &page{}
	cmd.Flags().IntVar(&p.limit, "limit", 50, "how many, at most 500")
	cmd.Flags().StringVar(&p.before, "before", "", "go on behind this cursor, the next of the page before")
	return p
}

// more says how to read on.
func (a *app) more(next string) {
	if next != "" {
		a.note("more with --before %s", next)
	}
}
