package tui

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/bubbles/key"

	"interlock.sh/tui/components"
	"interlock.sh/tui/look"
	"interlock.sh/tui/pages"
	"interlock.sh/tui/text"
)

// View draws the screen, or repeats the last drawing when nothing changed since.
func (a *App) View() string {
	if !a.dirty || a.w == 0 {
		return a.rendered
	}
	a.dirty = false
	a.renders++
	a.rendered = a.draw()
	return a.rendered
}

func (a *App) draw() string {
	if a.w < MinWidth || a.h < MinHeight {
		return a.tooSmall()
	}
	lines := []string{a.bar(), a.tabLine()}
	bottom := []string{a.keyLine()}
	if a.notice.text != "" {
		style, mark := a.style.Good, look.MarkGood
		if a.notice.bad {
			style, mark = a.style.Bad, look.MarkBad
		}
		bottom = append([]string{text.Left(style.Render(mark+" "+text.Clean(a.notice.text)), a.w)}, bottom...)
	}
	h := a.h - len(lines) - len(bottom)
	body := a.body(h)
	if a.dialog != nil {
		body = components.Overlay(body, a.question(), a.w, h)
	}
	return strings.Join(append(append(lines, body), bottom...), "\n")
}

func (a *App) tooSmall() string {
	return text.Block(text.Wrap([]string{
		fmt.Sprintf("interlock needs %d×%d cells; this window has %d×%d.", MinWidth, MinHeight, a.w, a.h), "Make it larger, or press q.",
	}, a.w), a.w, a.h)
}

// bar says where one is and whether the server is reached.
func (a *App) bar() string {
	project := a.backend.Project()
	if who := a.who.value; project == "" {
		project = who.Project
		if project == "" && len(who.Projects) == 1 {
			project = who.Projects[0].ID
		}
	}
	left := a.style.Brand.Render("◆ interlock")
	if project != "" {
		left += "  " + a.style.Strong.Render(text.Cut(text.Clean(project), max(a.w/3-4, 12)))
	}
	return text.Ends(left+"  "+a.style.Dim.Render(text.Clean(a.backend.BaseURL())), a.connection(), a.w)
}

func (a *App) connection() string {
	switch {
	case a.offline != nil:
		return a.style.Bad.Render(look.MarkBad + " disconnected")
	case a.machines.loaded || a.list.loaded || a.who.loaded:
		return a.style.Good.Render(look.MarkGood + " connected")
	case a.machines.err != nil:
		return a.style.Bad.Render(look.MarkBad + " refused")
	}
	return a.style.Work.Render(look.MarkWork + " connecting")
}

func (a *App) tabLine() string {
	names := []struct {
		page  PageName
		label string
		key   key.Binding
	}{
		{FleetPage, "Fleet", a.keys.Fleet}, {TasksPage, "Tasks", a.keys.Tasks}, {AskPage, "Ask", a.keys.Ask}, {HelpPage, "Help", a.keys.Help},
	}
	line := make([]components.Tab, len(names))
	for i, n := range names {
		line[i] = components.Tab{Key: n.key.Help().Key, Title: n.label, On: a.tab() == n.page}
	}
	right := ""
	switch {
	case a.offline != nil && a.machines.loaded:
		right = a.style.Rest.Render("shown as last read")
	case a.machines.loaded:
		right = a.fleet.Summary(a.w >= 90)
	}
	return text.Ends(components.Tabs(a.style, line), right, a.w)
}

func (a *App) keyLine() string {
	if a.dialog != nil {
		return text.Left(components.KeyLine(a.style, nil, []key.Binding{a.keys.Yes, a.keys.No}, a.w), a.w)
	}
	var bindings []key.Binding
	if a.shown() {
		bindings = a.current().Keys()
	} else if a.page == MachinePage || a.page == TaskPage {
		bindings = []key.Binding{a.keys.Back}
	}
	always := []key.Binding{a.keys.Help, a.keys.Quit}
	if a.current().Typing() {
		always = []key.Binding{keysQuitTyping}
	}
	return text.Left(components.KeyLine(a.style, bindings, always, a.w), a.w)
}

// keysQuitTyping is the one way out while letters go into a text.
var keysQuitTyping = key.NewBinding(key.WithKeys("ctrl+c"), key.WithHelp("ctrl+c", "quit"))

func (a *App) question() string {
	keys := a.style.Key.Render("y") + " yes   " + a.style.Key.Render("n") + " no"
	return components.Dialog(a.style, text.Clean(a.dialog.Title), []string{text.Clean(a.dialog.Body)}, keys, a.w)
}

// body is the page, or what stands in its place.
func (a *App) body(h int) string {
	switch a.page {
	case FleetPage:
		if a.machines.loaded && len(a.machines.value) == 0 {
			return pages.NoMachines(a.style, a.groups.value, text.Clean(a.backend.BaseURL()), a.w, h)
		}
		return bodyOf(a, &a.machines, "the fleet", h)
	case MachinePage:
		return bodyOf(a, &a.detail, "the machine", h)
	case TasksPage:
		return bodyOf(a, &a.list, "the tasks", h)
	case TaskPage:
		return bodyOf(a, &a.one, "the task", h)
	case AskPage:
		if !a.machines.loaded {
			return bodyOf(a, &a.machines, "the models", h)
		}
	}
	return a.current().View(a.w, h)
}

func bodyOf[T any](a *App, s *source[T], what string, h int) string {
	server := text.Clean(a.backend.BaseURL())
	switch {
	case s.loaded:
		return a.current().View(a.w, h)
	case s.err != nil:
		return pages.Failure(a.style, what, server, s.err, RefreshEvery, a.w, h)
	}
	return pages.Loading(a.style, what, server, a.w, h)
}
