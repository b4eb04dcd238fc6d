package tui

import (
	"context"

	tea "github.com/charmbracelet/bubbletea"

	"interlock.sh/ai"
	"interlock.sh/fleet"
	"interlock.sh/tasks"
	"interlock.sh/tui/pages"
	"interlock.sh/tui/text"
)

const cancelReason = "cancelled from the dashboard"

// done is what became of an action.
type done struct {
	words string
	err   error
	then  func() tea.Cmd // reads what the action changed
}

// carryOut does what a page asked for.
func (a *App) carryOut(req tea.Msg) tea.Cmd {
	switch req := req.(type) {
	case pages.Confirm:
		a.dialog = &req
	case pages.Back:
		return a.back()
	case pages.OpenMachine:
		return a.openMachine(req.ID)
	case pages.OpenTask:
		return a.openTask(req.ID)
	case pages.QueryTasks:
		// What a read under way brings was asked by the old filter; it is dropped when it comes.
		a.list.busy, a.list.again = false, false
		return a.readTasks()
	case pages.Ask:
		return a.startRun(req.Model, req.Prompt)
	case pages.ActOnMachine:
		return a.act(req)
	case pages.CancelTask:
		return a.action(func(ctx context.Context) (string, error) {
			v, err := a.backend.CancelTask(ctx, req.ID, cancelReason)
			return cancelWords(v), err
		}, a.readPage)
	case pages.CancelRun:
		return a.action(func(ctx context.Context) (string, error) {
			_, err := a.backend.CancelRun(ctx, req.ID, cancelReason)
			return "stopping the answer", err
		}, nil)
	}
	return nil
}

func (a *App) back() tea.Cmd {
	switch a.page {
	case MachinePage:
		return a.open(FleetPage)
	case TaskPage:
		return a.open(TasksPage)
	case HelpPage:
		return a.open(a.from)
	}
	return nil
}

func (a *App) openMachine(id string) tea.Cmd {
	if id != a.machineID {
		a.machineID, a.detail = id, source[fleet.MachineDetail]{}
	}
	return a.open(MachinePage)
}

func (a *App) openTask(id string) tea.Cmd {
	if id != a.taskID {
		a.taskID, a.one = id, source[taskDetail]{}
	}
	return a.open(TaskPage)
}

func (a *App) act(req pages.ActOnMachine) tea.Cmd {
	return a.action(func(ctx context.Context) (string, error) {
		_, err := a.backend.ActOnMachine(ctx, req.ID, req.Action)
		return req.Name + ": asked to " + string(req.Action), err
	}, func() tea.Cmd { return tea.Batch(a.readMachines(), a.readPage()) })
}

func cancelWords(v tasks.View) string {
	if v.State.Terminal() {
		return text.Clean(v.ID) + " is " + text.Clean(string(v.State))
	}
	return text.Clean(v.ID) + " ends when its worker has stopped"
}

// action does something in the background and says what became of it.
func (a *App) action(do func(context.Context) (string, error), then func() tea.Cmd) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(a.ctx, readTimeout)
		defer cancel()
		words, err := do(ctx)
		return done{words: words, err: a.explain(err), then: then}
	}
}

// The messages of a run that is followed.
type (
	runRead   struct{ run ai.Run }
	runEvents struct {
		events []runEvent
		from   <-chan runEvent
	}
	runEvent struct {
		name  string
		data  ai.StreamEvent
		ended bool
		run   ai.Run
		err   error
	}
)

// startRun submits a run; its events come as messages.
func (a *App) startRun(model, prompt string) tea.Cmd {
	a.follow()
	ctx, cancel := context.WithCancel(a.ctx)
	a.follow = cancel
	events := make(chan runEvent, 256)
	put := func(e runEvent) error {
		select {
		case events <- e:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	run := func() tea.Msg {
		defer close(events)
		r, err := a.backend.SubmitRun(ctx, ai.RunRequest{Model: model, Prompt: prompt})
		if err == nil {
			_ = put(runEvent{name: ai.StreamHello, data: ai.StreamEvent{Run: &r}})
			r, err = a.backend.FollowRun(ctx, r.ID, func(name string, ev ai.StreamEvent) error {
				return put(runEvent{name: name, data: ev})
			})
		}
		_ = put(runEvent{ended: true, run: r, err: a.explain(err)})
		return nil
	}
	return tea.Batch(run, nextEvents(events))
}

// nextEvents waits for an event and takes all that came by then: a fast model is one drawing a frame,
// not one a token.
func nextEvents(from <-chan runEvent) tea.Cmd {
	return func() tea.Msg {
		first, ok := <-from
		if !ok {
			return nil
		}
		out := runEvents{events: []runEvent{first}, from: from}
		for {
			select {
			case e, ok := <-from:
				if !ok {
					return out
				}
				out.events = append(out.events, e)
			default:
				return out
			}
		}
	}
}

// tookEvent takes what became of actions and runs.
func (a *App) tookEvent(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case done:
		a.dirty = true
		a.notice = notice{text: msg.words}
		if msg.err != nil {
			a.notice = notice{text: msg.err.Error(), bad: true}
		}
		if msg.then != nil {
			return msg.then()
		}
	case runRead:
		a.dirty = true
		a.ask.Started(msg.run)
	case runEvents:
		a.dirty = true
		cmds := []tea.Cmd{nextEvents(msg.from)}
		for _, e := range msg.events {
			if e.ended {
				a.ask.Ended(e.run, e.err)
			} else if a.ask.Event(e.name, e.data) {
				cmds = append(cmds, a.readRun())
			}
		}
		return tea.Batch(cmds...)
	}
	return nil
}

// readRun asks which machine answers. When it fails, the end of the run tells.
func (a *App) readRun() tea.Cmd {
	id := a.ask.RunID()
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(a.ctx, readTimeout)
		defer cancel()
		run, err := a.backend.Run(ctx, id)
		if err != nil {
			return nil
		}
		return runRead{run}
	}
}
