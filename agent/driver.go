package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"interlock.sh/agent/supervise"
	"interlock.sh/llama"
)

// llamaDriver tells the supervisor how one deployment's llama-server is started and asked.
type llamaDriver struct {
	bin     llama.Binary
	spec    llama.Spec // without port and key, which are new for each start
	weights int64

	mu     sync.Mutex
	client *llama.Client // of the newest start
	at     supervise.Endpoint
}

var _ supervise.Driver = (*llamaDriver)(nil)

// Command is called once for each start.
func (d *llamaDriver) Command(at supervise.Endpoint) (supervise.Command, error) {
	spec := d.spec
	spec.Port, spec.APIKey, spec.APIKeyFile = at.Port, at.Key, at.KeyFile
	args, err := llama.Args(d.bin, spec)
	if err != nil {
		return supervise.Command{}, err
	}
	return supervise.Command{Path: d.bin.Path, Args: args, Env: llama.Env(d.bin, spec, nil)}, nil
}

// Ready checks that the server is ours, has loaded, and serves what was asked.
func (d *llamaDriver) Ready(ctx context.Context, at supervise.Endpoint) error {
	c := d.of(at)
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
	if err := llama.VerifyProps(props, d.spec); err != nil {
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
func (d *llamaDriver) Alive(ctx context.Context, at supervise.Endpoint) error {
	return d.of(at).Probe(ctx)
}

// CloseStreams ends our requests, so that the server does not wait for them.
func (d *llamaDriver) CloseStreams(at supervise.Endpoint) { d.of(at).CloseStreams() }

// ParseError finds the reason of a failed start.
func (d *llamaDriver) ParseError(tail []string) string { return llama.ParseStartError(tail) }

// LoadDeadline grows with the weights.
func (d *llamaDriver) LoadDeadline() time.Duration { return llama.LoadDeadline(d.weights) }

// of is the client of an endpoint: one for each start, since it remembers that the server proved to be
// ours.
func (d *llamaDriver) of(at supervise.Endpoint) *llama.Client {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client == nil || d.at != at {
		d.client, d.at = llama.NewClient(at.URL(), at.Key), at
	}
	return d.client
}
