package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"interlock.sh/ai"
	"interlock.sh/client"
)

const (
	secondInterrupt = 3 * time.Second // how long a first Ctrl-C waits for a second
	cancelTimeout   = 10 * time.Second
)

// askFlags is what the command line says about one question.
type askFlags struct {
	req               ai.RunRequest
	timeout           time.Duration
	waitFor           time.Duration
	policy            string
	json              *bool
	cancelOnInterrupt bool
}

func (a *app) askCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ask <prompt>",
		Short: "Ask a model and watch its answer",
		Long: `Ask a model and watch its answer. The run is durable: the first Ctrl-C stops watching and leaves it
running, a second one cancels it. Without words, or with -, the prompt is read from the standard input.

When no machine serves the model now, the run is refused. With --wait-for it waits for one, as for the
hours of a machine to begin, and says when that is; --timeout then counts from its start.`,
		Example: "  interlock ask \"Why is the sky blue?\" --model qwen3-4b\n" +
			"  interlock ask \"Summarize the day\" --model qwen3-4b --wait-for 8h",
		Args: cobra.ArbitraryArgs,
	}
	var q askFlags
	q.json = cmd.Flags().Bool("json", false, "print nothing but the finished run, as JSON")
	f := cmd.Flags()
	f.StringVar(&q.req.Model, "model", "", "a deployment alias, or group@channel")
	f.StringVar(&q.req.System, "system", "", "system message before the prompt")
	f.IntVar(&q.req.MaxTokens, "max-tokens", 0, fmt.Sprintf("longest answer, 1 to %d (default %d)", ai.MaxTokens, ai.DefaultTokens))
	f.DurationVar(&q.timeout, "timeout", 0, fmt.Sprintf("give up after this long from now, with --wait-for from its start, at most %s (default %s)", ai.MaxTimeout, ai.DefaultExpiry))
	f.DurationVar(&q.waitFor, "wait-for", 0, fmt.Sprintf("wait this long for a machine when none serves the model now, at most %s", ai.MaxWait))
	f.StringVar(&q.policy, "policy", "", fmt.Sprintf("where it may run: %s, %s, %s", ai.SelfHostedOnly, ai.SelfHostedThenManaged, ai.ManagedOnly))
	f.BoolVar(&q.cancelOnInterrupt, "cancel-on-interrupt", false, "the first Ctrl-C cancels the run")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q.req.Prompt = strings.Join(args, " ")
		if err := a.finishQuestion(&q); err != nil {
			return err
		}
		return a.online(func(ctx context.Context, s *session, _ *cobra.Command, _ []string) error {
			return a.ask(ctx, s.Client, q)
		})(cmd, args)
	}
	return cmd
}

// finishQuestion reads a piped prompt and refuses what is plainly wrong.
func (a *app) finishQuestion(q *askFlags) error {
	if q.req.Model == "" {
		return usage("which model? name it with --model, a deployment alias or group@channel")
	}
	if q.policy != "" && !ai.Policy(q.policy).Valid() {
		return usage("--policy %s is none of %s, %s, %s", q.policy, ai.SelfHostedOnly, ai.SelfHostedThenManaged, ai.ManagedOnly)
	}
	if q.req.MaxTokens < 0 || q.req.MaxTokens > ai.MaxTokens {
		return usage("--max-tokens %d is out of bounds: 1 to %d", q.req.MaxTokens, ai.MaxTokens)
	}
	if q.timeout < 0 || q.timeout > ai.MaxTimeout {
		return usage("--timeout %s is out of bounds: more than 0, at most %s", q.timeout, ai.MaxTimeout)
	}
	if q.waitFor < 0 || q.waitFor > ai.MaxWait {
		return usage("--wait-for %s is out of bounds: more than 0, at most %s", q.waitFor, ai.MaxWait)
	}
	q.req.RoutePolicy, q.req.TimeoutMs, q.req.WaitForMs = ai.Policy(q.policy), q.timeout.Milliseconds(), q.waitFor.Milliseconds()
	if q.req.Prompt == "" && !isTerminal(a.In) || q.req.Prompt == "-" {
		text, err := io.ReadAll(io.LimitReader(a.In, ai.MaxBody))
		if err != nil {
			return fmt.Errorf("read the prompt: %w", err)
		}
		q.req.Prompt = string(text)
	}
	if strings.TrimSpace(q.req.Prompt) == "" {
		return usage("the prompt is empty: give it in quotes, or pipe it in")
	}
	return nil
}

func (a *app) ask(ctx context.Context, c *client.Client, q askFlags) error {
	run, err := c.SubmitRun(ctx, q.req)
	if err != nil {
		if ctx.Err() != nil {
			a.note("interrupted while it was being submitted; `interlock runs list` shows whether it was admitted")
		}
		return err
	}
	if run.Waiting != nil {
		a.note("run %s waits: %s", run.ID, waits(*run.Waiting))
	}
	answer := &answer{out: a.Out, clean: isTerminal(a.Out), note: a.note, mute: *q.json}
	done, err := followRun(ctx, c, run.ID, answer.event, a.clock)
	if ctx.Err() != nil && err != nil {
		answer.endLine()
		return a.interrupted(context.WithoutCancel(ctx), c, run.ID, q.cancelOnInterrupt)
	}
	if err != nil {
		answer.endLine()
		return fmt.Errorf("%w; `interlock runs get %s` shows the run", err, run.ID)
	}
	if *q.json {
		err = a.printJSON(done)
	} else {
		answer.finish(done)
		a.note("%s", evidence(done))
	}
	if err != nil {
		return err
	}
	return endedBadly("run "+done.ID, done.State, done.Error)
}

// interrupted decides what becomes of a run whose reader leaves.
func (a *app) interrupted(ctx context.Context, c *client.Client, id string, cancel bool) error {
	if !cancel && a.env.Interrupt != nil {
		a.note("run %s goes on; `interlock runs get %s` shows its answer. Ctrl-C again within %s cancels it", id, id, secondInterrupt)
		select {
		case <-a.env.Interrupt:
			cancel = true
		case <-a.clock.After(secondInterrupt):
		}
	}
	if !cancel {
		return &exit{ExitError}
	}
	ctx, stop := context.WithTimeout(ctx, cancelTimeout)
	defer stop()
	run, err := c.CancelRun(ctx, id, "interrupted")
	if err != nil {
		return fmt.Errorf("cancel run %s: %w; `interlock runs cancel %s` tries again", id, err, id)
	}
	a.note("run %s: cancel requested, it is %s", id, run.State)
	return &exit{ExitError}
}

// evidence is one line on who answered, how much and how fast.
func evidence(r ai.Run) string {
	parts := []string{orUnknown(r.Machine), orUnknown(r.Deployment)}
	if r.Usage != nil {
		parts = append(parts, fmt.Sprintf("%d tokens (%d prompt, %d answer)", r.Usage.TotalTokens, r.Usage.PromptTokens, r.Usage.CompletionTokens))
	} else {
		parts = append(parts, unknown+" tokens")
	}
	parts = append(parts, rate(r.TokensPerSecond)+" tok/s")
	if r.DurationMs > 0 {
		parts = append(parts, brief(time.Duration(r.DurationMs)*time.Millisecond))
	}
	if r.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", r.Attempt))
	}
	return strings.Join(append(parts, "run "+r.ID), " · ")
}

// waits says what a run waits for, and how long at most.
func waits(w ai.Waiting) string {
	if w.Until == nil {
		return w.Reason
	}
	return w.Reason + "; until " + stamp(w.Until) + " at the latest"
}
