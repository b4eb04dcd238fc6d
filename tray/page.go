package tray

import "strings"

// PageName is a page of the window.
type PageName string

// The pages. Hours and logs are of one agent.
const (
	RolesPage     PageName = "roles"
	HoursPage     PageName = "hours"
	LogsPage      PageName = "logs"
	UpdatesPage   PageName = "updates"
	AboutPage     PageName = "about"
	UninstallPage PageName = "uninstall"
)

// Page is a page of the window, as the menu asks for it.
type Page struct {
	Name PageName
	Key  Key
}

// String is the page as one line, as ParsePage reads it.
func (p Page) String() string {
	if p.Key == (Key{}) {
		return string(p.Name)
	}
	return string(p.Name) + " " + p.Key.String()
}

// ParsePage reads what String wrote; the first page for anything else.
func ParsePage(s string) Page {
	name, key, _ := strings.Cut(strings.TrimSpace(s), " ")
	p := Page{Name: PageName(name), Key: ParseKey(key)}
	switch p.Name {
	case HoursPage, LogsPage:
		if p.Key != (Key{}) {
			return p
		}
	case UpdatesPage, AboutPage, UninstallPage:
		return Page{Name: p.Name}
	}
	return Page{Name: RolesPage}
}

// News is what the window tells the app in the bar, one word a line.
type News string

// The news.
const (
	Wished      News = "wished"      // an agent was told something: look again
	Uninstalled News = "uninstalled" // everything was removed, the app too
)
