package tui

import (
	"context"
	"fmt"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"interlock.sh/fault"
)

// ParseSize reads a size as "120x40".
func ParseSize(s string) (w, h int, err error) {
	if n, err := fmt.Sscanf(s, "%dx%d", &w, &h); err != nil || n != 2 || fmt.Sprintf("%dx%d", w, h) != s {
		return 0, 0, fault.New(fault.Invalid, "%q is no size of a frame", s).WithField("frame").WithHint("give width and height, as in 120x40")
	}
	if w < MinWidth || h < MinHeight || w > 1000 || h > 1000 {
		return 0, 0, fault.New(fault.Invalid, "a frame of %s cells is out of bounds", s).WithField("frame").
			WithHint("it goes from %dx%d to 1000x1000", MinWidth, MinHeight)
	}
	return w, h, nil
}

// ParsePage reads the name of a page.
func ParsePage(s string) (PageName, error) {
	for _, p := range []PageName{FleetPage, MachinePage, TasksPage, AskPage, HelpPage} {
		if string(p) == s {
			return p, nil
		}
	}
	return "", fault.New(fault.Invalid, "%q is no page", s).WithField("page").WithHint("the pages are fleet, machine, tasks, ask and help")
}

// Frame reads what a page shows and draws it once. The machine page shows the first machine. The error
// is why the data could not be read; the frame then says so too.
func Frame(ctx context.Context, o Options, page PageName, w, h int) (string, error) {
	a := New(ctx, o)
	a.w, a.h = w, h
	if page == MachinePage {
		a.settle(a.readMachines())
		if m, ok := a.fleet.Selected(); ok {
			a.settle(a.openMachine(m.ID))
		} else {
			page = FleetPage
		}
	}
	a.settle(a.open(page))
	a.settle(a.readAll())
	a.setNow()
	lines := strings.Split(a.View(), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n") + "\n", a.failure()
}

// settle carries reads out, one after the other, until none is left.
func (a *App) settle(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	msg := cmd()
	if batch, ok := msg.(tea.BatchMsg); ok {
		for _, c := range batch {
			a.settle(c)
		}
		return
	}
	if msg != nil {
		_, next := a.Update(msg)
		a.settle(next)
	}
}

func (a *App) failure() error {
	for _, err := range []error{a.machines.err, a.detail.err, a.list.err} {
		if err != nil {
			return err
		}
	}
	return nil
}
