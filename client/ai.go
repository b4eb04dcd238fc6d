package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"interlock.sh/ai"
	"interlock.sh/tasks"
)

// SubmitRun admits a durable AI run.
func (c *Client) SubmitRun(ctx context.Context, req ai.RunRequest) (ai.Run, error) {
	var out ai.Run
	return out, c.Do(ctx, http.MethodPost, "/api/ai/runs", req, &out)
}

// Run reads the canonical state of a run.
func (c *Client) Run(ctx context.Context, id string) (ai.Run, error) {
	var out ai.Run
	return out, c.Do(ctx, http.MethodGet, "/api/ai/runs/"+url.PathEscape(id), nil, &out)
}

// Runs reads a page of runs, newest first.
func (c *Client) Runs(ctx context.Context, before string, limit int) (ai.RunList, error) {
	q := url.Values{}
	set(q, "before", before)
	setInt(q, "limit", int64(limit))
	var out ai.RunList
	return out, c.Do(ctx, http.MethodGet, "/api/ai/runs"+query(q), nil, &out)
}

// CancelRun asks a run to stop.
func (c *Client) CancelRun(ctx context.Context, id, reason string) (ai.Run, error) {
	var out ai.Run
	return out, c.Do(ctx, http.MethodPost, "/api/ai/runs/"+url.PathEscape(id)+"/cancel", tasks.CancelRequest{Reason: reason}, &out)
}

// FollowRun calls on for every event of a run's stream until its end event, reconnecting on the way. The
// stream is a hint: FollowRun returns the run as a final read has it.
func (c *Client) FollowRun(ctx context.Context, id string, on func(event string, ev ai.StreamEvent) error) (ai.Run, error) {
	err := c.Follow(ctx, "/api/ai/runs/"+url.PathEscape(id)+"/stream", "", func(e Event) error {
		var ev ai.StreamEvent
		if err := json.Unmarshal([]byte(e.Data), &ev); err != nil {
			return err
		}
		if err := on(e.Event, ev); err != nil {
			return err
		}
		if e.Event == ai.StreamEnd {
			return ErrStop
		}
		return nil
	})
	if err != nil {
		return ai.Run{}, err
	}
	return c.Run(ctx, id)
}

// Usage reads a page of usage events, newest first, with totals.
func (c *Client) Usage(ctx context.Context, before string, limit int) (ai.UsageList, error) {
	q := url.Values{}
	set(q, "before", before)
	setInt(q, "limit", int64(limit))
	var out ai.UsageList
	return out, c.Do(ctx, http.MethodGet, "/api/usage"+query(q), nil, &out)
}
