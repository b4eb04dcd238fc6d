package localapi

import (
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
)

// Client talks to one agent of this machine.
type Client struct {
	http *http.Client
}

// Dial makes a client for the agent behind a socket. It connects when asked.
func Dial(socket string) *Client {
	return &Client{http: &http.Client{
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}},
	}}
}

// Status asks how the agent is.
func (c *Client) Status(ctx context.Context) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, quickly)
	defer cancel()
	var out Status
	return out, c.do(ctx, http.MethodGet, "/status", &out)
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
	return out, c.do(ctx, http.MethodPost, verb, &out)
}

// quickly bounds what an agent answers from memory. Doctor has no bound but the caller's: reading every
// model file takes minutes.
const quickly = time.Minute

// Doctor has the agent check itself; deep reads every model file whole.
func (c *Client) Doctor(ctx context.Context, deep bool) ([]Check, error) {
	var out []Check
	return out, c.do(ctx, http.MethodGet, "/doctor?deep="+strconv.FormatBool(deep), &out)
}

// Logs reads the newest lines of a deployment's model server, by id or alias; of the agent for "".
func (c *Client) Logs(ctx context.Context, deployment string, lines int) (Logs, error) {
	ctx, cancel := context.WithTimeout(ctx, quickly)
	defer cancel()
	var out Logs
	q := url.Values{"deployment": {deployment}, "lines": {strconv.Itoa(lines)}}
	return out, c.do(ctx, http.MethodGet, "/logs?"+q.Encode(), &out)
}

func (c *Client) do(ctx context.Context, method, path string, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			return fault.Wrap(err, fault.Unavailable, "the agent does not run").WithHint("start it: interlock agent start")
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
