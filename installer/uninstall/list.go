package uninstall

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"interlock.sh/fleet/build"
)

// Item is one file or folder, with what it is in words.
type Item struct {
	Path string `json:"path"`
	What string `json:"what"`
}

// List is what goes and what stays.
type List struct {
	Goes  []Item `json:"goes"`
	Stays []Item `json:"stays"`

	home string
	dirs []string // that go once they are empty
}

// Machine is where things of an agent are.
type Machine struct {
	Home    string   // the agent's folder
	Sockets []string // outside of it, when the home's path is too long; other homes may have theirs beside
	Desktop []string // the menu-bar app's files on the desktop: what starts it at login, the app itself
}

// All lists the whole machine. A home folder that is not there, or only half, is no error.
func (m Machine) All() (List, error) {
	l := List{home: m.Home}
	entries, err := os.ReadDir(m.Home)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return l, fmt.Errorf("look at %s: %w", m.Home, err)
	}
	for _, e := range entries {
		path, name := filepath.Join(m.Home, e.Name()), e.Name()
		_, isApp := build.ReadApp(name)
		switch {
		case name == "groups":
			if err := l.groups(path); err != nil {
				return l, err
			}
		case isApp:
			l.Goes = append(l.Goes, Item{path, "programs and what they trust"})
		case name == "run":
			l.Goes = append(l.Goes, Item{path, "sockets"})
		case name == "enroll.lock":
			l.Goes = append(l.Goes, Item{path, "lock of an enrollment"})
		case strings.HasPrefix(name, "ledger.json"):
			l.Goes = append(l.Goes, Item{path, "memory promised to model servers"})
		case name == "cache":
			l.Stays = append(l.Stays, Item{path, "shared model files" + sizeOf(path)})
		default:
			l.Stays = append(l.Stays, Item{path, "not the agent's"})
		}
	}
	for _, path := range m.Sockets {
		if there(path) {
			l.Goes = append(l.Goes, Item{path, "socket"})
		}
		if dir := filepath.Dir(path); !slices.Contains(l.dirs, dir) {
			l.dirs = append(l.dirs, dir)
		}
	}
	for _, path := range m.Desktop {
		if there(path) {
			l.Goes = append(l.Goes, Item{path, "Nightshift"})
		}
	}
	return l, nil
}

func (l *List) groups(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	for _, e := range entries {
		l.Goes = append(l.Goes, Item{filepath.Join(dir, e.Name()), "group " + e.Name() + ": credential, settings, logs, versions"})
	}
	l.Goes = append(l.Goes, Item{dir, "groups"})
	return nil
}

// Role lists one role of a group: with the last role the whole group goes. Programs stay.
func (m Machine) Role(group, role string) (List, error) {
	l := List{home: m.Home}
	dir := filepath.Join(m.Home, "groups", group)
	roles, err := os.ReadDir(filepath.Join(dir, "roles"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return l, fmt.Errorf("look at group %s: %w", group, err)
	}
	others := 0
	for _, r := range roles {
		if r.Name() != role {
			others++
			l.Stays = append(l.Stays, Item{filepath.Join(dir, "roles", r.Name()), "role " + r.Name()})
		}
	}
	gone := Item{filepath.Join(dir, "roles", role), "role " + role + ": credential, settings, logs"}
	if others == 0 {
		gone = Item{dir, "group " + group + ": credential, settings, logs, versions"}
	}
	if there(gone.Path) {
		l.Goes = append(l.Goes, gone)
	}
	if cache := filepath.Join(m.Home, "cache"); there(cache) {
		l.Stays = append(l.Stays, Item{cache, "shared model files" + sizeOf(cache)})
	}
	return l, nil
}

// there is true for whatever has a name, a link to nothing too.
func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// sizeOf says how much a folder holds, as far as it can be read.
func sizeOf(dir string) string {
	var bytes uint64
	files := 0
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			files++
			bytes += uint64(info.Size())
		}
		return nil
	}) // what cannot be read is not counted
	if files == 0 {
		return ""
	}
	return fmt.Sprintf(", %s", humanize.Bytes(bytes))
}
