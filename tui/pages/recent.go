package pages

import (
	"strings"
	"time"

	"interlock.sh/tasks"
	"interlock.sh/tui/components"
	"interlock.sh/tui/look"
)

// RecentTasks is how many of the newest tasks the fleet page has room for.
const RecentTasks = 8

// recent is the newest tasks under the fleet, where there is room.
type recent struct {
	style look.Style
	table components.Table
}

func newRecent(style look.Style) recent {
	return recent{style: style, table: components.Table{Style: style, Columns: taskColumns, SortBy: -1, Unchosen: true}}
}

func (r *recent) set(list []tasks.View, names map[string]string, now time.Time) {
	rows := make([]components.Row, len(list))
	for i, v := range list {
		rows[i] = taskRow(r.style, v, names, now)
	}
	r.table.SetRows(rows)
}

// lines draws at most room lines; none where that is too little to be of use.
func (r *recent) lines(w, room int) []string {
	const frame, least = 2, 2 // heading and heads of columns; rows
	if r.table.Len() == 0 || room < frame+min(least, r.table.Len()) {
		return nil
	}
	rows := min(r.table.Len(), room-frame, RecentTasks)
	out := []string{components.Rule(r.style, "Newest tasks", "2 shows all", w)}
	return append(out, strings.Split(r.table.View(w, rows+1), "\n")...)
}
