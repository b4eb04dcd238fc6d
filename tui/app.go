package tui

import (
	"context"
	"time"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"

	"interlock.sh/access"
	"interlock.sh/fleet"
	"interlock.sh/internal/clock"
	"interlock.sh/tasks"
	"interlock.sh/tui/keys"
	"interlock.sh/tui/look"
	"interlock.sh/tui/pages"
)

// The rhythm of the dashboard.
const (
	RefreshEvery = 5 * time.Second        // read again without any hint
	settle       = 500 * time.Millisecond // hints that come during a read are one more read, this much later
)

// The smallest terminal that the pages are made for.
const (
	MinWidth  = 60
	MinHeight = 20
)

// Options is what a dashboard is made of.
type Options struct {
	Backend  Backend
	Renderer *lipgloss.Renderer // of the terminal that is drawn on
	Clock    clock.Clock        // the machine's own when nil
	// Explain may add to a refusal what the program knows about its credential. Nil adds nothing.
	Explain func(error) error
	// Size is that of the terminal until it tells its own; zero draws nothing until then.
	Size Size
}

// Size is a number of cells.
type Size struct{ W, H int }

// App is the root model. It is driven by Update from one goroutine.
type App struct {
	ctx     context.Context // of the whole program: reads and actions end with it
	backend Backend
	clock   clock.Clock
	style   look.Style
	keys    keys.Map
	explain func(error) error

	w, h   int
	page   PageName
	from   PageName // where Back leads from a machine, a task or help
	dialog *pages.Confirm
	notice notice
	now    time.Time
	skew   time.Duration

	fleet   *pages.Fleet
	machine *pages.Machine
	tasks   *pages.Tasks
	task    *pages.Task
	ask     *pages.Asking
	help    *pages.Help

	who       source[access.Whoami]
	groups    source[[]fleet.Group]
	machines  source[[]fleet.Machine]
	detail    source[fleet.MachineDetail]
	machineID string
	list      source[tasks.List]
	recent    source[[]tasks.View]
	taskID    string
	one       source[taskDetail]
	names     map[string]string // machine id → name, cleaned
	offline   error             // why the newest read failed to reach the server
	follow    func()            // ends the run that is followed
	hints     hints

	dirty    bool
	rendered string
	renders  int // frames that were really drawn, for tests
}

// PageName names a page.
type PageName string

// The pages.
const (
	FleetPage   PageName = "fleet"
	MachinePage PageName = "machine"
	TasksPage   PageName = "tasks"
	TaskPage    PageName = "task"
	AskPage     PageName = "ask"
	HelpPage    PageName = "help"
)

// notice is one line about what just happened; the next key takes it away.
type notice struct {
	text string
	bad  bool
}

// New is a dashboard at its first page, without data. ctx ends its reads.
func New(ctx context.Context, o Options) *App {
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Explain == nil {
		o.Explain = func(err error) error { return err }
	}
	style, k := look.New(o.Renderer), keys.Default()
	return &App{
		ctx: ctx, backend: o.Backend, clock: o.Clock, style: style, keys: k, explain: o.Explain,
		page: FleetPage, from: FleetPage, now: o.Clock.Now(), names: map[string]string{},
		fleet: pages.NewFleet(style, k), machine: pages.NewMachine(style, k), tasks: pages.NewTasks(style, k),
		task: pages.NewTask(style, k), ask: pages.NewAsking(style, k), help: pages.NewHelp(style, k),
		w: o.Size.W, h: o.Size.H, follow: func() {}, hints: newHints(), dirty: true,
	}
}

// Init starts the first reads and the refresh.
func (a *App) Init() tea.Cmd { return tea.Batch(a.readAll(), a.tick()) }

// Update takes one message: a key, a size, what a read brought, a hint.
func (a *App) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		a.dirty = a.dirty || a.w != msg.Width || a.h != msg.Height
		a.w, a.h = msg.Width, msg.Height
		return a, nil
	case tea.KeyMsg:
		a.dirty = true
		var cmds []tea.Cmd
		for _, k := range a.single(msg) {
			cmds = append(cmds, a.key(k))
		}
		return a, tea.Batch(cmds...)
	case tickMsg:
		a.setNow()
		return a, tea.Batch(a.readAll(), a.tick())
	case hintMsg:
		return a, a.hinted(msg.kind)
	case dueMsg:
		return a, a.readHinted(msg.kind)
	}
	return a, a.took(msg)
}

func (a *App) current() pages.Page {
	switch a.page {
	case MachinePage:
		return a.machine
	case TasksPage:
		return a.tasks
	case TaskPage:
		return a.task
	case AskPage:
		return a.ask
	case HelpPage:
		return a.help
	}
	return a.fleet
}

// shown reports whether the page has its data; else a panel stands in its place and takes no keys.
func (a *App) shown() bool {
	switch a.page {
	case FleetPage:
		return a.machines.loaded && len(a.machines.value) > 0
	case MachinePage:
		return a.detail.loaded
	case TasksPage:
		return a.list.loaded
	case TaskPage:
		return a.one.loaded
	}
	return true
}

// single takes apart what arrived at once over a slow line: a key held down is that key several times.
// Different letters at once are a paste of a terminal that does not say so, and no row of keys.
func (a *App) single(k tea.KeyMsg) []tea.KeyMsg {
	if k.Type != tea.KeyRunes || len(k.Runes) < 2 || k.Paste || (a.dialog == nil && a.current().Typing()) {
		return []tea.KeyMsg{k}
	}
	one := k
	one.Runes = k.Runes[:1]
	var out []tea.KeyMsg
	for _, r := range k.Runes {
		if r != k.Runes[0] {
			return nil
		}
		out = append(out, one)
	}
	return out
}

func (a *App) key(k tea.KeyMsg) tea.Cmd {
	a.notice = notice{}
	if k.Type == tea.KeyCtrlC {
		return tea.Quit
	}
	if a.dialog != nil {
		return a.answer(k)
	}
	if k.Paste && !a.current().Typing() && a.page != AskPage {
		return nil // a pasted text is no row of keys
	}
	if key.Matches(k, a.keys.Refresh) {
		return a.readAll()
	}
	if !a.current().Typing() || a.page == AskPage {
		switch {
		case key.Matches(k, a.keys.Next):
			return a.open(a.neighbour(1))
		case key.Matches(k, a.keys.Prev):
			return a.open(a.neighbour(-1))
		}
	}
	if !a.current().Typing() {
		switch {
		case key.Matches(k, a.keys.Quit):
			return tea.Quit
		case key.Matches(k, a.keys.Fleet):
			return a.open(FleetPage)
		case key.Matches(k, a.keys.Tasks):
			return a.open(TasksPage)
		case key.Matches(k, a.keys.Ask):
			return a.open(AskPage)
		case key.Matches(k, a.keys.Help):
			return a.open(HelpPage)
		}
	}
	if !a.shown() {
		if key.Matches(k, a.keys.Back) {
			return a.carryOut(pages.Back{})
		}
		return nil
	}
	return a.carryOut(a.current().Key(k))
}

// answer takes a key while a question is open. Only the two answers do anything.
func (a *App) answer(k tea.KeyMsg) tea.Cmd {
	switch {
	case k.Paste:
	case key.Matches(k, a.keys.Yes):
		then := a.dialog.Then
		a.dialog = nil
		return a.carryOut(then)
	case key.Matches(k, a.keys.No):
		a.dialog = nil
	}
	return nil
}

var tabs = []PageName{FleetPage, TasksPage, AskPage, HelpPage}

// tab is the tab that a page belongs to.
func (a *App) tab() PageName {
	switch a.page {
	case MachinePage:
		return FleetPage
	case TaskPage:
		return TasksPage
	}
	return a.page
}

func (a *App) neighbour(n int) PageName {
	for i, t := range tabs {
		if t == a.tab() {
			return tabs[(i+n+len(tabs))%len(tabs)]
		}
	}
	return FleetPage
}

func (a *App) open(p PageName) tea.Cmd {
	if p == HelpPage && a.page != HelpPage {
		a.from = a.page
	}
	a.page = p
	return a.readPage()
}
