// Package pages are the pages of the dashboard: fleet, machine, tasks, task, ask, help, and what stands
// in place of a page that has nothing to show. A page owns what is chosen, sorted and filtered on it,
// and draws itself into the room it is given. It fetches nothing: the root model gives it data and
// carries out the requests that its keys make.
package pages

import (
	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"

	"interlock.sh/client"
	"interlock.sh/fleet"
	"interlock.sh/tasks"
)

// Page is one page.
type Page interface {
	// Key takes a key and answers what it asks for: one of the requests below, or nil.
	Key(tea.KeyMsg) tea.Msg
	// View draws the page in exactly w × h cells.
	View(w, h int) string
	// Keys are the keys that do something now, the useful ones first.
	Keys() []key.Binding
	// Typing reports whether letters go into a text rather than to keys.
	Typing() bool
}

// The requests that keys make.
type (
	// OpenMachine shows a machine.
	OpenMachine struct{ ID string }
	// OpenTask shows a task and its journal.
	OpenTask struct{ ID string }
	// Back leaves a machine or a task for the list that it came from.
	Back struct{}
	// QueryTasks reads tasks by another state or type.
	QueryTasks struct{ Filter client.TaskFilter }
	// Ask submits a run and follows its answer.
	Ask struct{ Model, Prompt string }
	// Confirm asks before Then is carried out.
	Confirm struct {
		Title string
		Body  string
		Then  tea.Msg
	}
	// ActOnMachine is only made through Confirm; so are the two that follow.
	ActOnMachine struct {
		ID, Name string
		Action   client.MachineAction
	}
	// CancelTask asks a task to stop.
	CancelTask struct{ ID string }
	// CancelRun asks a run to stop.
	CancelRun struct{ ID string }
)

// actOn is the question before an action on a machine.
func actOn(m fleet.Machine, name string, action client.MachineAction) tea.Msg {
	c := Confirm{Then: ActOnMachine{ID: m.ID, Name: name, Action: action}}
	switch action {
	case client.MachinePause:
		c.Title = "Pause " + name + "?"
		c.Body = "Its work ends, then its model processes stop. The installation stays, and resume starts them again."
	case client.MachineResume:
		c.Title = "Resume " + name + "?"
		c.Body = "It starts what is assigned to it and takes work again, within its owner's hours."
	case client.MachineDrain:
		c.Title = "Drain " + name + "?"
		c.Body = "It finishes the work that it holds and takes no more. Its models stay loaded."
	}
	return c
}

func cancelTask(t tasks.View, label string) tea.Msg {
	body := "It has not been claimed, so it ends at once."
	if t.State.Held() {
		body = "A worker holds it: the task ends when the worker has stopped."
	}
	return Confirm{Title: "Cancel " + label + "?", Body: body, Then: CancelTask{ID: t.ID}}
}
