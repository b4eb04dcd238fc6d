package localapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/ownersocket"
	"interlock.sh/internal/retry"
)

// Client talks to one agent of this machine.
type Client struct {
	http *http.Client
	runs func() bool // whether the agent's process is there
}

// Dial makes a client for the agent behind a socket. It connects when asked.
func Dial(socket string) *Client { return DialRunning(socket, func() bool { return false }) }

// DialRunning is Dial for whoever can tell whether the agent's process runs. While it does, a door that is
// closed is asked again for a few seconds: an agent that starts, or is replaced by another version, has none
// for a moment, and no wish of its owner must be lost to that.
func DialRunning(socket string, runs func() bool) *Client {
	return &Client{runs: runs, http: &http.Client{
		Transport: &http.Transport{IdleConnTimeout: 30 * time.Second, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return ownersocket.Dial(ctx, socket)
		}},
	}}
}

// Status asks how the agent is.
func (c *Client) Status(ctx context.Context) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, quickly)
	defer cancel()
	var out Status
	return out, c.do(ctx, http.MethodGet, "/status", nil, &out)
}

// SetOwner pauses, resumes or drains in the owner's name.
func (c *Client) SetOwner(ctx context.Context, mode fleet.Mode) (Status, error) {
	verb, ok := map[fleet.Mode]string{fleet.Paused: "/pause", fleet.Active: "/resume", fleet.Draining: "/drain"}[mode]
	var out Status
	if !ok {
		return out, fault.New(fault.Invalid, "mode %q is none of active, paused, draining", mode).WithField("mode")
	}
	ctx, cancel := context.WithTimeout(ctx, quickly)
	defer cancel()
	return out, c.do(ctx, http.MethodPost, verb, nil, &out)
}

// SetAvailability sets the owner's hours and other limits. An agent from before them answers
// fault.NotFound.
func (c *Client) SetAvailability(ctx context.Context, a schedule.Availability) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, quickly)
	defer cancel()
	var out Status
	return out, c.do(ctx, http.MethodPut, "/availability", a, &out)
}

// Pause pauses beside the hours, for whole minutes; for 0 until it is resumed. An agent from before the
// hours ignores the time: ask its Status first.
func (c *Client) Pause(ctx context.Context, d time.Duration) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, quickly)
	defer cancel()
	path := "/pause"
	if d > 0 {
		path += "?minutes=" + strconv.Itoa(int((d+time.Minute-1)/time.Minute))
	}
	var out Status
	return out, c.do(ctx, http.MethodPost, path, nil, &out)
}

// quickly bounds what an agent answers from memory. Doctor has no bound but the caller's: reading every
// model file takes minutes.
const quickly = time.Minute

// Restart makes the agent go on as the program that is current, after the work in hand: for that it takes
// at most within, or its own bound when that is 0. It returns once that has begun.
func (c *Client) Restart(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, quickly)
	defer cancel()
	path := "/restart"
	if within > 0 {
		path += "?within=" + within.String()
	}
	var out Status
	return c.do(ctx, http.MethodPost, path, nil, &out)
}

// Doctor has the agent check itself; deep reads every model file whole.
func (c *Client) Doctor(ctx context.Context, deep bool) ([]Check, error) {
	var out []Check
	return out, c.do(ctx, http.MethodGet, "/doctor?deep="+strconv.FormatBool(deep), nil, &out)
}

// Logs reads the newest lines of a deployment's model server, by id or alias; of the agent for "".
func (c *Client) Logs(ctx context.Context, deployment string, lines int) (Logs, error) {
	ctx, cancel := context.WithTimeout(ctx, quickly)
	defer cancel()
	var out Logs
	q := url.Values{"deployment": {deployment}, "lines": {strconv.Itoa(lines)}}
	return out, c.do(ctx, http.MethodGet, "/logs?"+q.Encode(), nil, &out)
}

const (
	opensWithin = 8 * time.Second // an agent whose process runs
	knockEvery  = 50 * time.Millisecond
)

// send asks, and again while the door is closed and the agent's process runs: nothing was said by then.
func (c *Client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	end := clock.System.Now().Add(opensWithin)
	var shut error // what the door said last
	for {
		req, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		if body != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := c.http.Do(req)
		if shut != nil && ctx.Err() != nil && err != nil {
			return nil, &notOpenError{shut}
		}
		if !closed(err) || !c.runs() {
			return resp, err
		}
		shut = err
		if !clock.System.Now().Before(end) || retry.Sleep(ctx, clock.System, knockEvery) != nil {
			return nil, &notOpenError{shut}
		}
	}
}

// closed is the failure of a door behind which nobody listens.
func closed(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// notOpenError is a door that stayed closed although the agent's process runs.
type notOpenError struct{ error }

// Unwrap is what the door said last.
func (e *notOpenError) Unwrap() error { return e.error }

func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		var shut *notOpenError
		switch {
		case errors.As(err, &shut):
			return fault.Wrap(err, fault.Unavailable, "the agent's process runs, and its door is not open").
				WithHint("it may be starting: try again in a moment; else interlock agent stop, then interlock agent start")
		case closed(err):
			return fault.Wrap(err, fault.Unavailable, "the agent does not run").WithHint("start it: interlock agent start")
		}
		var refused *ownersocket.RefusedError
		if errors.As(err, &refused) {
			return fault.Wrap(err, fault.ScopeDenied, "nothing is asked of what answers there: %s %s", refused.Path, refused.What).WithHint("%s", refused.Fix)
		}
		return fmt.Errorf("ask the agent: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	if resp.StatusCode >= http.StatusBadRequest {
		var body struct {
			Err *fault.Error `json:"error"`
		}
		if err := json.NewDecoder(resp.Body).Decode(&body); err != nil || body.Err == nil {
			return fault.New(fault.ForStatus(resp.StatusCode), "the agent answered %s", resp.Status)
		}
		return body.Err
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("read the agent's answer: %w", err)
	}
	return nil
}
