package llama

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"syscall"

	"interlock.sh/fault"
	"interlock.sh/internal/ident"
)

// State is what stands behind a server's address.
type State int

// The states that Health tells apart.
const (
	Unreachable State = iota // the connection broke or could not be made, other than by refusal
	Refused                  // nothing listens: not started yet, or gone
	Silent                   // something accepts and does not answer before the deadline
	Loading                  // llama-server, loading its model
	OK                       // llama-server, ours, loaded; whether it can compute only Probe knows
	Foreign                  // something that is not the server we started
)

// String is the state as a word for logs.
func (s State) String() string {
	switch s {
	case Refused:
		return "refused"
	case Silent:
		return "silent"
	case Loading:
		return "loading"
	case OK:
		return "ok"
	case Foreign:
		return "foreign"
	}
	return "unreachable"
}

// Health asks what stands behind the address. The error says why for every state but OK and Loading.
//
// /health is open to everybody, so 200 there proves nothing: the first time, the listener must also
// refuse a random key and accept ours on /props. What does not is Foreign, and must not be sent work.
func (c *Client) Health(ctx context.Context) (State, error) {
	c.heard.Store(false)
	status, answer, err := c.fetch(ctx, http.MethodGet, "/health", "", nil)
	if err != nil {
		return c.stateOf(ctx, err), err
	}
	switch status {
	case http.StatusOK:
		return c.prove(ctx)
	case http.StatusServiceUnavailable:
		return Loading, nil
	}
	return Foreign, c.foreign("it answers /health with %d: %s", status, reason(answer))
}

// prove shows once that the listener is the server that was given our key.
func (c *Client) prove(ctx context.Context) (State, error) {
	if c.key == "" || c.proven.Load() {
		return OK, nil
	}
	for _, challenge := range []struct {
		key, said string
		want      int
	}{
		{ident.Secret("wrong_"), "a wrong key", http.StatusUnauthorized},
		{c.key, "our key", http.StatusOK},
	} {
		status, _, err := c.fetch(ctx, http.MethodGet, "/props", challenge.key, nil)
		if err != nil {
			return c.stateOf(ctx, err), err
		}
		if status == http.StatusServiceUnavailable {
			return Loading, nil
		}
		if status != challenge.want {
			return Foreign, c.foreign("it answers %s with %d, not %d", challenge.said, status, challenge.want)
		}
	}
	c.proven.Store(true)
	return OK, nil
}

func (c *Client) foreign(format string, args ...any) error {
	return fault.New(fault.Conflict, "another program listens on %s: %s", c.base, fmt.Sprintf(format, args...)).
		WithHint("it is left alone; the model server starts on another port")
}

// stateOf reads the state from a failed request.
func (c *Client) stateOf(ctx context.Context, err error) State {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case ctx.Err() != nil:
		return Silent
	case c.heard.Load() && !broken(err) && !c.proven.Load():
		return Foreign // it said something, and that was no HTTP
	}
	return Unreachable
}

// broken says that the connection ended under the request, as when the server dies.
func broken(err error) bool {
	var op *net.OpError
	return errors.Is(err, errClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &op)
}

// Props is what a server says it serves.
type Props struct {
	SlotContext  int // tokens a slot
	Slots        int
	ModelPath    string
	ModelAlias   string
	ChatTemplate string
	BuildInfo    string
	Sleeping     bool
}

// Props asks the server what it serves.
func (c *Client) Props(ctx context.Context) (Props, error) {
	var p struct {
		Defaults struct {
			Ctx int `json:"n_ctx"`
		} `json:"default_generation_settings"`
		Slots    int    `json:"total_slots"`
		Path     string `json:"model_path"`
		Alias    string `json:"model_alias"`
		Template string `json:"chat_template"`
		Build    string `json:"build_info"`
		Sleeping bool   `json:"is_sleeping"`
	}
	if err := c.get(ctx, "/props", &p); err != nil {
		return Props{}, err
	}
	return Props{p.Defaults.Ctx, p.Slots, p.Path, p.Alias, p.Template, p.Build, p.Sleeping}, nil
}

// VerifyProps is an error when the server does not serve what was asked. A slot may have up to 255
// tokens more than asked, because llama.cpp rounds up to 256. An empty Model or Alias is not compared.
func VerifyProps(p Props, s Spec) error {
	wrong := func(format string, args ...any) *fault.Error {
		return fault.New(fault.Conflict, "llama-server does not serve what the deployment asks: "+format, args...)
	}
	switch {
	case p.Slots != s.Slots:
		return wrong("%d slots, asked were %d", p.Slots, s.Slots)
	case p.SlotContext < s.ContextLength:
		return wrong("%d tokens of context a slot, asked were %d", p.SlotContext, s.ContextLength).
			WithHint("llama-server stops at what the model was trained for: ask for at most %d", p.SlotContext)
	case uint64(p.SlotContext) > roundUp(s.ContextLength):
		return wrong("%d tokens of context a slot, asked were %d", p.SlotContext, s.ContextLength)
	case s.Model != "" && filepath.Clean(p.ModelPath) != filepath.Clean(s.Model):
		return wrong("the model file %s, asked was %s", filepath.Base(p.ModelPath), filepath.Base(s.Model))
	case s.Alias != "" && p.ModelAlias != "" && p.ModelAlias != s.Alias:
		return wrong("the model name %q, asked was %q", p.ModelAlias, s.Alias)
	}
	return nil
}

// Probe makes the server compute one token, which a server that answers /health and is wedged does
// not. It waits behind other requests when every slot is busy: probe when a slot is free, or take the
// progress of a running stream as the proof. ctx is the deadline.
func (c *Client) Probe(ctx context.Context) error {
	body := []byte(`{"prompt":"a","n_predict":1,"cache_prompt":false,"stream":false}`)
	status, answer, err := c.fetch(ctx, http.MethodPost, "/completion", c.key, body)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	if status != http.StatusOK {
		return fmt.Errorf("probe: %w", &statusError{"/completion", status, reason(answer)})
	}
	var got struct {
		Predicted *int `json:"tokens_predicted"`
	}
	if err := json.Unmarshal(answer, &got); err != nil {
		return fmt.Errorf("probe: read the answer: %w", err)
	}
	if got.Predicted == nil || *got.Predicted < 1 {
		return errors.New("probe: llama-server answered without computing a token")
	}
	return nil
}
