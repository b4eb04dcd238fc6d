package tui

import (
	"context"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"interlock.sh/access"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/tasks"
	"interlock.sh/tui/pages"
	"interlock.sh/tui/text"
)

const (
	readTimeout  = 20 * time.Second // so that a read that hangs does not end all further ones
	journalPage  = 500
	journalLimit = 5000 // entries that are kept of one task
)

// taskDetail is a task with its journal as far as it was read.
type taskDetail struct {
	view    tasks.View
	entries []tasks.Entry
	cursor  int64
	cut     bool // the journal goes on behind journalLimit
}

type (
	tickMsg struct{}
	// readMsg asks for a read that was put off.
	readMsg struct{ read func() tea.Cmd }
	// brought is what a read brought; of says which one, where there are several of a kind.
	brought[T any] struct {
		value T
		of    string
		err   error
	}
	listBrought struct {
		list   tasks.List
		filter client.TaskFilter
		err    error
	}
)

func (a *App) tick() tea.Cmd {
	return func() tea.Msg { return a.wait(RefreshEvery, tickMsg{}) }
}

// wait is msg after a while, or nothing when the program ends first.
func (a *App) wait(d time.Duration, msg tea.Msg) tea.Msg {
	select {
	case <-a.clock.After(d):
		return msg
	case <-a.ctx.Done():
		return nil
	}
}

// read runs get in the background and brings what it returns.
func read[T any](a *App, of string, get func(context.Context) (T, error)) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(a.ctx, readTimeout)
		defer cancel()
		v, err := get(ctx)
		return brought[T]{value: v, of: of, err: a.explain(err)}
	}
}

// readAll reads what every page needs, and what the open page shows.
func (a *App) readAll() tea.Cmd {
	var cmds []tea.Cmd
	if !a.who.loaded && a.who.begin() {
		cmds = append(cmds, read(a, "", a.backend.Whoami))
	}
	return tea.Batch(append(cmds, a.readMachines(), a.readPage())...)
}

// readPage reads what the open page shows beyond the machines.
func (a *App) readPage() tea.Cmd {
	switch a.page {
	case FleetPage:
		return a.readRecent()
	case MachinePage:
		return a.readMachine()
	case TasksPage:
		return a.readTasks()
	case TaskPage:
		return a.readTask()
	}
	return nil
}

func (a *App) readMachines() tea.Cmd {
	if !a.machines.begin() {
		return nil
	}
	return read(a, "", a.backend.Machines)
}

func (a *App) readGroups() tea.Cmd {
	if !a.groups.begin() {
		return nil
	}
	return read(a, "", a.backend.Groups)
}

func (a *App) readRecent() tea.Cmd {
	if !a.recent.begin() {
		return nil
	}
	return read(a, "", func(ctx context.Context) ([]tasks.View, error) {
		list, err := a.backend.ListTasks(ctx, client.TaskFilter{Limit: pages.RecentTasks})
		return list.Tasks, err
	})
}

func (a *App) readMachine() tea.Cmd {
	if a.machineID == "" || !a.detail.begin() {
		return nil
	}
	id := a.machineID
	return read(a, id, func(ctx context.Context) (fleet.MachineDetail, error) { return a.backend.Machine(ctx, id) })
}

func (a *App) readTasks() tea.Cmd {
	if !a.list.begin() {
		return nil
	}
	filter := a.tasks.Query()
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(a.ctx, readTimeout)
		defer cancel()
		list, err := a.backend.ListTasks(ctx, filter)
		return listBrought{list: list, filter: filter, err: a.explain(err)}
	}
}

// readTask reads the task and the journal behind what is known of it.
func (a *App) readTask() tea.Cmd {
	if a.taskID == "" || !a.one.begin() {
		return nil
	}
	id, known := a.taskID, a.one.value
	return read(a, id, func(ctx context.Context) (taskDetail, error) {
		next := taskDetail{entries: known.entries, cursor: known.cursor}
		var err error
		if next.view, err = a.backend.Task(ctx, id); err != nil {
			return next, err
		}
		for len(next.entries) < journalLimit && next.cursor < next.view.Cursor {
			page, err := a.backend.TaskJournal(ctx, id, next.cursor, journalPage)
			if err != nil {
				return next, err
			}
			if len(page.Entries) == 0 {
				break
			}
			// Copied, since the model that draws still has the old one.
			next.entries = append(next.entries[:len(next.entries):len(next.entries)], page.Entries...)
			next.cursor = page.Cursor
		}
		next.cut = next.cursor < next.view.Cursor
		return next, nil
	})
}

// took takes what a read or an action brought.
func (a *App) took(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case readMsg:
		return msg.read()
	case brought[access.Whoami]:
		return ended(a, &a.who, msg.value, msg.err, nil, nil)
	case brought[[]fleet.Group]:
		return ended(a, &a.groups, msg.value, msg.err, nil, a.readGroups)
	case brought[[]fleet.Machine]:
		cmd := ended(a, &a.machines, msg.value, msg.err, a.setMachines, a.readMachines)
		if msg.err == nil && len(msg.value) == 0 {
			return tea.Batch(cmd, a.readGroups()) // the way out depends on whether there is a group
		}
		return cmd
	case brought[[]tasks.View]:
		return ended(a, &a.recent, msg.value, msg.err, a.setRecent, a.readRecent)
	case brought[fleet.MachineDetail]:
		if msg.of != a.machineID {
			return nil
		}
		return ended(a, &a.detail, msg.value, msg.err, a.setMachine, a.readMachine)
	case listBrought:
		if msg.filter != a.tasks.Query() {
			return nil
		}
		return ended(a, &a.list, msg.list, msg.err, a.setTasks, a.readTasks)
	case brought[taskDetail]:
		if msg.of != a.taskID {
			return nil
		}
		return ended(a, &a.one, msg.value, msg.err, a.setTask, a.readTask)
	}
	return a.tookEvent(msg)
}

// ended puts what a read brought in its place, and gives it to the pages when it is something new.
func ended[T any](a *App, s *source[T], v T, err error, set func(), again func() tea.Cmd) tea.Cmd {
	changed, repeat := s.end(v, err)
	a.reached(err)
	if changed {
		a.dirty = true
		a.setNow()
		if set != nil && s.loaded {
			set()
		}
	}
	if !repeat || again == nil {
		return nil
	}
	return func() tea.Msg { return a.wait(settle, readMsg{again}) }
}

// reached notes whether the newest read reached the server.
func (a *App) reached(err error) {
	var away error
	if code := fault.CodeOf(err); code == fault.Unavailable || code == fault.CaptivePortal {
		away = err
	}
	if (away == nil) != (a.offline == nil) {
		a.dirty = true
	}
	a.offline = away
}

// setNow moves the time that ages are counted to. The server's clock counts, when it is far from ours.
func (a *App) setNow() {
	const tolerance = 5 * time.Second
	if skew := a.backend.ServerTimeSkew(); (skew - a.skew).Abs() > tolerance {
		a.skew = skew
	}
	now := a.clock.Now().Add(a.skew)
	if now.Truncate(time.Second).Equal(a.now.Truncate(time.Second)) {
		return
	}
	a.now, a.dirty = now, true
	for _, set := range []func(){a.setMachines, a.setMachine, a.setTask} {
		set()
	}
}

func (a *App) setMachines() {
	clear(a.names)
	for _, m := range a.machines.value {
		a.names[m.ID] = text.Clean(m.Name)
	}
	if a.machines.loaded {
		a.fleet.Set(a.machines.value, a.now)
		a.ask.Set(a.machines.value)
	}
	a.setTasks() // for the names
	a.setRecent()
}

func (a *App) setRecent() {
	if a.recent.loaded {
		a.fleet.SetRecent(a.recent.value, a.names, a.now)
	}
}

func (a *App) setMachine() {
	if a.detail.loaded {
		a.machine.Set(a.detail.value, a.now)
	}
}

func (a *App) setTasks() {
	if a.list.loaded {
		a.tasks.Set(a.list.value, a.names, a.now)
	}
}

func (a *App) setTask() {
	if a.one.loaded {
		a.task.Set(a.one.value.view, pages.Entries{List: a.one.value.entries, Cut: a.one.value.cut}, a.names, a.now)
	}
}
