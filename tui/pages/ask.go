package pages

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"

	"interlock.sh/ai"
	"interlock.sh/fleet"
	"interlock.sh/tui/components"
	"interlock.sh/tui/keys"
	"interlock.sh/tui/look"
	"interlock.sh/tui/text"
)

const (
	promptLimit = 16 << 10 // characters
	keepTalks   = 50       // questions with their answers that stay on the page
)

// Asking puts questions to models and shows the answers as they come.
type Asking struct {
	style  look.Style
	keys   keys.Map
	input  components.Input
	scroll components.Scroll
	models []model
	chosen string
	talks  []talk
}

type model struct {
	alias        string
	ready, total int
}

// NewAsking is the page with an empty prompt that takes the keys.
func NewAsking(style look.Style, k keys.Map) *Asking {
	a := &Asking{style: style, keys: k, input: components.NewInput(style, promptLimit), scroll: components.Scroll{Follow: true}}
	a.input.Focus()
	return a
}

// Set gives the page the machines, whose deployments are the models to choose from.
func (a *Asking) Set(ms []fleet.Machine) {
	counts := map[string]*model{}
	for _, m := range ms {
		for _, d := range m.Deployments {
			c := counts[d.Alias]
			if c == nil {
				c = &model{alias: d.Alias}
				counts[d.Alias] = c
			}
			c.total++
			if d.State.Serving() && m.State.Serving() {
				c.ready++
			}
		}
	}
	a.models = a.models[:0]
	for _, c := range counts {
		a.models = append(a.models, *c)
	}
	slices.SortFunc(a.models, func(x, y model) int {
		if (x.ready > 0) != (y.ready > 0) {
			if x.ready > 0 {
				return -1
			}
			return 1
		}
		return strings.Compare(x.alias, y.alias)
	})
	if a.index() < 0 {
		a.chosen = ""
	}
	if a.chosen == "" && len(a.models) > 0 {
		a.chosen = a.models[0].alias
	}
}

func (a *Asking) index() int {
	return slices.IndexFunc(a.models, func(m model) bool { return m.alias == a.chosen })
}

func (a *Asking) choose(n int) {
	if len(a.models) > 0 {
		a.chosen = a.models[(a.index()+n+len(a.models))%len(a.models)].alias
	}
}

// Key edits the prompt, chooses the model, scrolls, asks, and asks whether to cancel.
func (a *Asking) Key(k tea.KeyMsg) tea.Msg {
	if k.Paste {
		a.input.Focus()
		a.input.Key(k)
		return nil
	}
	switch {
	case key.Matches(k, a.keys.ModelUp):
		a.choose(-1)
	case key.Matches(k, a.keys.ModelDown):
		a.choose(1)
	case key.Matches(k, a.keys.ScrollUp):
		a.scroll.Page(-1)
	case key.Matches(k, a.keys.ScrollDn):
		a.scroll.Page(1)
	case !a.input.Focused():
		switch {
		case key.Matches(k, a.keys.Write):
			a.input.Focus()
		case key.Matches(k, a.keys.Cancel):
			return a.cancel()
		}
	case key.Matches(k, a.keys.Leave):
		a.input.Blur()
	case key.Matches(k, a.keys.Send):
		return a.send()
	default:
		a.input.Key(k)
	}
	return nil
}

func (a *Asking) send() tea.Msg {
	prompt := strings.TrimSpace(a.input.Value())
	if prompt == "" || a.chosen == "" || a.busy() {
		return nil
	}
	a.input.SetValue("")
	a.scroll.Reset()
	a.talks = append(a.talks, talk{prompt: prompt, model: a.chosen, live: true})
	a.talks = a.talks[max(len(a.talks)-keepTalks, 0):]
	return Ask{Model: a.chosen, Prompt: prompt}
}

func (a *Asking) cancel() tea.Msg {
	if !a.busy() || a.last().run.ID == "" {
		return nil
	}
	return Confirm{
		Title: "Stop this answer?",
		Body:  "The model stops where it is. What came so far stays here and is charged as it is.",
		Then:  CancelRun{ID: a.last().run.ID},
	}
}

// last is the newest talk; there is one whenever a run is followed.
func (a *Asking) last() *talk { return &a.talks[len(a.talks)-1] }

func (a *Asking) busy() bool { return len(a.talks) > 0 && a.last().live }

// Started says that the newest question became a run.
func (a *Asking) Started(run ai.Run) {
	if a.busy() {
		a.last().update(run)
	}
}

// Event takes an event of the run's stream. It reports whether the run should be read, because it
// began to answer and the machine is not known.
func (a *Asking) Event(event string, ev ai.StreamEvent) (read bool) {
	if !a.busy() {
		return false
	}
	return a.last().event(event, ev)
}

// Ended takes the run as it ended, or why it could not be followed to its end.
func (a *Asking) Ended(run ai.Run, err error) {
	if !a.busy() {
		return
	}
	t := a.last()
	t.live = false
	if err != nil {
		t.failure = err.Error()
		return
	}
	t.update(run)
	if run.Answer != nil {
		t.answer = *run.Answer
	}
	if run.Error != nil {
		t.failure = run.Error.Code + ": " + run.Error.Message
	}
}

// View draws the conversation, the model and the prompt.
func (a *Asking) View(w, h int) string {
	bottom := []string{
		components.Rule(a.style, "", "", w),
		text.Ends(a.style.Dim.Render("model  ")+a.modelWords(), a.style.Dim.Render(a.modelCount()), w),
		text.Left(a.promptLine(w), w),
	}
	room := h - len(bottom)
	var top string
	switch {
	case len(a.talks) > 0:
		var lines []string
		for i := range a.talks {
			lines = append(lines, a.talks[i].lines(a.style, w)...)
		}
		top = a.scroll.View(lines, w, room)
	case len(a.models) == 0:
		top = noModel(a.style, w, room)
	default:
		top = components.Panel(a.style, "", "Ask a model of this fleet", []components.Step{
			components.Say("Type a prompt below and press enter. You see the answer as it is written, and which machine writes it."),
			components.Say(""),
			components.Say("It is a durable run: it goes on when you leave, and stands under Tasks."),
		}, w, room)
	}
	return strings.Join(append([]string{top}, bottom...), "\n")
}

func (a *Asking) modelWords() string {
	i := a.index()
	if i < 0 {
		return a.style.Rest.Render("none is deployed")
	}
	m := a.models[i]
	words, style := fmt.Sprintf("%d of %s ready", m.ready, text.Count(m.total, "machine", "machines")), a.style.Good
	if m.ready == 0 {
		style = a.style.Bad
	}
	return a.style.Strong.Render(text.Cut(text.Clean(m.alias), 28)) + "  " + style.Render(words)
}

func (a *Asking) modelCount() string {
	if len(a.models) < 2 {
		return ""
	}
	return fmt.Sprintf("↑↓ %d of %d", a.index()+1, len(a.models))
}

func (a *Asking) promptLine(w int) string {
	mark := a.style.Accent.Render("› ")
	switch {
	case a.input.Focused():
		return mark + a.input.View(w-2)
	case a.input.Value() != "":
		return a.style.Dim.Render("› " + a.input.View(w-2))
	}
	return a.style.Dim.Render("› press enter to type")
}

// Keys are the keys of the page.
func (a *Asking) Keys() []key.Binding {
	if a.input.Focused() {
		return []key.Binding{a.keys.Send, a.keys.ModelDown, a.keys.ScrollDn, a.keys.Leave, a.keys.Next}
	}
	k := []key.Binding{a.keys.Write, a.keys.ModelDown, a.keys.ScrollDn}
	if a.busy() {
		k = append([]key.Binding{keys.Words(a.keys.Cancel, "stop the answer")}, k...)
	}
	return k
}

// Typing reports whether the prompt takes the keys.
func (a *Asking) Typing() bool { return a.input.Focused() }

// RunID is the run that answers now; empty when none does.
func (a *Asking) RunID() string {
	if !a.busy() {
		return ""
	}
	return a.last().run.ID
}
