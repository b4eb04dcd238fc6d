//go:build linux || cgo

package window

import (
	"slices"
	"strings"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/layout"
	"fyne.io/fyne/v2/theme"
	"fyne.io/fyne/v2/widget"
)

// spanList edits several parts of the day, a line each, with room under each for what is wrong with it.
type spanList struct {
	root   *fyne.Container
	lines  *fyne.Container
	wrong  []*widget.Label
	add    *widget.Button
	check  func()
	remove func(i int)
	fill   func() // makes the lines anew
}

func newSpanList(check, add func(), remove func(int)) *spanList {
	l := &spanList{lines: container.New(layout.NewCustomPaddedVBoxLayout(12)), check: check, remove: remove}
	l.add = widget.NewButtonWithIcon("", theme.ContentAddIcon(), func() { add(); l.fill() })
	l.root = container.NewVBox(l.lines, container.NewHBox(l.add))
	return l
}

func (l *spanList) clear() {
	l.lines.Objects, l.wrong = nil, nil
	l.lines.Refresh()
}

// line is the editor of one span; rate is nil where there is none.
func (l *spanList) line(s *spanDraft, rate *string) {
	i := len(l.wrong)
	parts := []fyne.CanvasObject{l.entry(&s.start, 64), widget.NewLabel("to"), l.entry(&s.end, 64)}
	if rate != nil {
		parts = append(parts, widget.NewLabel("at most"), l.entry(rate, 56), widget.NewLabel("MiB/s"))
	}
	gone := widget.NewButtonWithIcon("", theme.DeleteIcon(), func() { l.remove(i); l.fill() })
	gone.Importance = widget.LowImportance
	parts = append(parts, layout.NewSpacer(), gone)
	wrong := warning()
	l.wrong = append(l.wrong, wrong)
	l.lines.Add(container.NewVBox(container.NewHBox(parts...), l.week(s), wrong))
}

func (l *spanList) entry(text *string, width float32) fyne.CanvasObject {
	e := widget.NewEntry()
	e.Text = *text
	e.OnChanged = func(s string) { *text = s; l.check() }
	return container.NewGridWrap(fyne.NewSize(width, e.MinSize().Height), e)
}

// week is seven days to turn on and off.
func (l *spanList) week(s *spanDraft) fyne.CanvasObject {
	out := container.NewGridWithColumns(len(days))
	for _, d := range days {
		var b *widget.Button
		b = widget.NewButton(strings.ToUpper(d[:1])+d[1:], func() {
			if i := slices.Index(s.days, d); i >= 0 {
				s.days = slices.Delete(s.days, i, i+1)
			} else {
				s.days = append(s.days, d)
				slices.SortFunc(s.days, func(x, y string) int { return slices.Index(days, x) - slices.Index(days, y) })
			}
			press(b, slices.Contains(s.days, d))
			l.check()
		})
		press(b, slices.Contains(s.days, d))
		out.Add(b)
	}
	return out
}

// accuse shows what is wrong under its line, when it is about this list, and clears the others. It reports
// whether the line is there, and whether text changed.
func (l *spanList) accuse(mine bool, line int, text string) (there, changed bool) {
	for i, w := range l.wrong {
		mark := ""
		if mine && i == line {
			mark = text
		}
		changed = say(w, mark) || changed
	}
	return mine && line >= 0 && line < len(l.wrong), changed
}
