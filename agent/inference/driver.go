package inference

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"interlock.sh/agent/supervise"
	"interlock.sh/llama"
)

// Driver tells the supervisor how one llama-server is started and asked.
type Driver struct {
	Bin     llama.Binary
	Spec    llama.Spec // without port and key, which are new for each start
	Weights int64      // bytes of the model's files, which the time to load grows with

	mu     sync.Mutex
	client *llama.Client // of the newest start
	at     supervise.Endpoint
}

var _ supervise.Driver = (*Driver)(nil)

// Command is called once for each start.
func (d *Driver) Command(at supervise.Endpoint) (supervise.Command, error) {
	spec := d.Spec
	spec.Port, spec.APIKey, spec.APIKeyFile = at.Port, at.Key, at.KeyFile
	args, err := llama.Args(d.Bin, spec)
	if err != nil {
		return supervise.Command{}, err
	}
	return supervise.Command{Path: d.Bin.Path, Args: args, Env: llama.Env(d.Bin, spec, nil)}, nil
}

// Ready checks that the server is ours, has loaded, and serves what was asked.
func (d *Driver) Ready(ctx context.Context, at supervise.Endpoint) error {
	c := d.Client(at)
	switch state, err := c.Health(ctx); state {
	case llama.OK:
	case llama.Loading:
		return supervise.ErrLoading
	case llama.Foreign:
		return fmt.Errorf("%w: %w", supervise.ErrForeign, err)
	default:
		return fmt.Errorf("llama-server is %s: %w", state, orUnknown(err))
	}
	props, err := c.Props(ctx)
	if err != nil {
		return err
	}
	if err := llama.VerifyProps(props, d.Spec); err != nil {
		return fmt.Errorf("%w: %w", supervise.ErrUnusable, err)
	}
	return nil
}

func orUnknown(err error) error {
	if err == nil {
		return errors.New("no reason given")
	}
	return err
}

// Alive asks for one token.
func (d *Driver) Alive(ctx context.Context, at supervise.Endpoint) error {
	return d.Client(at).Probe(ctx)
}

// CloseStreams ends our requests, so that the server does not wait for them.
func (d *Driver) CloseStreams(at supervise.Endpoint) { d.Client(at).CloseStreams() }

// ParseError finds the reason of a failed start.
func (d *Driver) ParseError(tail []string) string { return llama.ParseStartError(tail) }

// LoadDeadline grows with the weights.
func (d *Driver) LoadDeadline() time.Duration { return llama.LoadDeadline(d.Weights) }

// Active is how many requests are open at the newest start.
func (d *Driver) Active() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client == nil {
		return 0
	}
	return d.client.Active()
}

// Client is the client of an endpoint: one for each start, since it remembers that the server proved to
// be ours.
func (d *Driver) Client(at supervise.Endpoint) *llama.Client {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client == nil || d.at != at {
		d.client, d.at = llama.NewClient(at.URL(), at.Key), at
	}
	return d.client
}
