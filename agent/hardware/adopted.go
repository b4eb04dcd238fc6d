package hardware

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/llama"
)

const (
	askEvery   = 5 * time.Second  // of a server that is ready
	askAgain   = time.Second      // of one that is not
	askWithin  = 5 * time.Second  // for one question
	probeEvery = time.Minute      // for one token, while nothing else is asked
	probeIn    = 30 * time.Second // for that token
)

// adopted is a model server that the operator named and runs. It is asked, by its address and key, what
// it is and serves; it is never started, stopped or signalled.
type adopted struct {
	s     Settings
	clock clock.Clock
	log   *slog.Logger

	mu       sync.Mutex
	client   *llama.Client // of the server as it was last found; a server that came back gets another
	ready    bool
	busy     int
	answered time.Time // when it last computed something
	poke     chan struct{}
}

func newAdopted(s Settings, c clock.Clock, log *slog.Logger) *adopted {
	return &adopted{s: s, clock: c, log: log, client: llama.NewClient(s.Server, s.ServerKey), poke: make(chan struct{}, 1)}
}

func (a *adopted) run(ctx context.Context, tell func(standing)) error {
	defer func() { a.current().CloseStreams() }()
	for ctx.Err() == nil {
		st := a.look(ctx)
		if ctx.Err() != nil {
			break
		}
		tell(st)
		wait := askEvery
		if !st.ready {
			wait = askAgain
		}
		select {
		case <-ctx.Done():
		case <-a.poke:
		case <-a.clock.After(wait):
		}
	}
	return nil
}

func (a *adopted) current() *llama.Client {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.client
}

// look asks once what stands there.
func (a *adopted) look(ctx context.Context) standing {
	st, state, err := a.ask(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ready && !st.ready {
		a.log.Warn("the model server is not to be used", slog.String("why", st.words), slog.Any("cause", err))
	}
	if !st.ready && state != llama.Loading && a.busy == 0 {
		// Whoever answers next may be another program: it has to prove itself again.
		a.client.CloseStreams()
		a.client = llama.NewClient(a.s.Server, a.s.ServerKey)
	}
	a.ready = st.ready
	return st
}

func (a *adopted) ask(ctx context.Context) (standing, llama.State, error) {
	c := a.current()
	short, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	state, err := c.Health(short)
	switch state {
	case llama.OK:
	case llama.Loading:
		return standing{words: "loading"}, state, nil
	case llama.Foreign:
		return standing{words: "foreign: " + said(err), stuck: true}, state, err
	default:
		return standing{words: fmt.Sprintf("%s does not answer (%s)", a.s.Server, state)}, state, err
	}
	props, err := c.Props(short)
	if err != nil {
		return standing{words: "it does not say what it serves: " + said(err)}, state, err
	}
	if err := a.verify(props); err != nil {
		return standing{words: "unusable: " + said(err), stuck: true}, state, err
	}
	if err := a.probe(ctx, c); err != nil {
		return standing{words: "it does not compute: " + said(err)}, state, err
	}
	slots := props.Slots
	if a.s.Slots > 0 {
		slots = a.s.Slots
	}
	return standing{ready: true, slots: slots, words: "ready"}, state, nil
}

// verify holds what the server says it serves against the settings.
func (a *adopted) verify(p llama.Props) error {
	wrong := func(format string, args ...any) *fault.Error {
		return fault.New(fault.Conflict, "the server at "+a.s.Server+" does not serve what is asked: "+format, args...)
	}
	model := filepath.Base(p.ModelPath)
	switch {
	case p.ModelAlias != a.s.Alias && (a.s.Model == "" || filepath.Base(a.s.Model) != model):
		return wrong("its model is %q (%s), asked was %q", p.ModelAlias, model, a.s.Alias).
			WithHint("start it with --alias %s, or set %s to the name of the weights that it serves", a.s.Alias, EnvModel)
	case a.s.Model != "" && filepath.Base(a.s.Model) != model:
		return wrong("its weights are %s, asked was %s", model, filepath.Base(a.s.Model)).WithHint("a different model gets another alias")
	case p.Slots < max(a.s.Slots, 1):
		return wrong("it has %d slots, asked were %d", p.Slots, max(a.s.Slots, 1)).WithHint("start it with -np %d, or lower %s", a.s.Slots, EnvSlots)
	case p.SlotContext < a.s.Context:
		return wrong("%d tokens of context a slot, asked were %d", p.SlotContext, a.s.Context).WithHint("start it with a larger -c, or lower %s", EnvContext)
	}
	return nil
}

// probe has it compute one token now and then: a server may say that it is well and hang.
func (a *adopted) probe(ctx context.Context, c *llama.Client) error {
	a.mu.Lock()
	due := a.busy == 0 && (!a.ready || a.clock.Now().Sub(a.answered) >= probeEvery)
	a.mu.Unlock()
	if !due {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeIn)
	defer cancel()
	if err := c.Probe(ctx); err != nil {
		return err
	}
	a.mu.Lock()
	a.answered = a.clock.Now()
	a.mu.Unlock()
	return nil
}

func (a *adopted) lease() (*llama.Client, func(bool), error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ready {
		return nil, nil, fault.New(fault.Unavailable, "the model server at %s is not ready", a.s.Server)
	}
	a.busy++
	return a.client, a.done, nil
}

func (a *adopted) done(whole bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy--
	if whole {
		a.answered = a.clock.Now()
	}
}

func (a *adopted) doubt(reason string) {
	a.mu.Lock()
	a.answered = time.Time{}
	a.mu.Unlock()
	a.log.Warn("a request was not answered as it should", slog.String("why", reason))
	select {
	case a.poke <- struct{}{}:
	default:
	}
}
