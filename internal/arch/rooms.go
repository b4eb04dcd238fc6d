package arch

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Document is where the table of rooms stands, relative to the module's root.
const Document = "docs/ARCHITECTURE.md"

// Rooms is the table of rooms: which folder may import which.
type Rooms struct {
	rows  map[string]int // room → row; an import may only go to a higher number, or stay in its room
	Never []Ban
	Pure  []string // rooms without input and output
	Tests []string // rooms that only tests, and the modules of their own, may import
}

// Ban forbids an import that the rows would allow.
type Ban struct{ From, To string }

// LoadRooms reads the table from the module's document.
func LoadRooms(root string) (*Rooms, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(Document)))
	if err != nil {
		return nil, fmt.Errorf("load rooms: %w", err)
	}
	return ParseRooms(string(text))
}

// ParseRooms reads the one fenced block called "rooms" of a Markdown document. Each of its lines is
//
//	a b c                  rooms of one row; "." is the root package, "internal/x" a folder below
//	never a b -> c d       a and b do not import c and d, rooms or packages of the standard library
//	pure a b               a and b do no input and output
//	tests a b              a and b are imported by tests only, and may import anything
//
// and "#" begins a comment.
func ParseRooms(markdown string) (*Rooms, error) {
	_, block, ok := strings.Cut(markdown, "```rooms\n")
	if !ok {
		return nil, fmt.Errorf("parse rooms: %s has no ```rooms block", Document)
	}
	block, _, ok = strings.Cut(block, "\n```")
	if !ok {
		return nil, fmt.Errorf("parse rooms: the ```rooms block of %s does not end", Document)
	}
	r := &Rooms{rows: map[string]int{}}
	for line := range strings.Lines(block) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "never":
			arrow := slices.Index(words, "->")
			if arrow < 2 || arrow == len(words)-1 {
				return nil, fmt.Errorf("parse rooms: %q is not \"never a -> b\"", strings.TrimSpace(line))
			}
			for _, from := range words[1:arrow] {
				for _, to := range words[arrow+1:] {
					r.Never = append(r.Never, Ban{From: from, To: to})
				}
			}
		case "pure":
			r.Pure = append(r.Pure, words[1:]...)
		case "tests":
			r.Tests = append(r.Tests, words[1:]...)
		default:
			row := len(r.rows) // grows with each room, so later rows are always higher
			for _, room := range words {
				if _, twice := r.rows[room]; twice {
					return nil, fmt.Errorf("parse rooms: %s stands in two rows", room)
				}
				r.rows[room] = row
			}
		}
	}
	return r, nil
}

// Of is the room that a folder belongs to: the longest name in the table that is the folder or one
// above it.
func (r *Rooms) Of(dir string) (room string, ok bool) {
	for {
		if _, ok := r.rows[dir]; ok || slices.Contains(r.Tests, dir) {
			return dir, true
		}
		parent := path.Dir(dir)
		if parent == "." { // the root package is a room, but never the room of what lies below it
			return "", false
		}
		dir = parent
	}
}

// names are all rooms of the table, with those that a ban or a property mentions.
func (r *Rooms) has(room string) bool {
	_, ok := r.rows[room]
	return ok || slices.Contains(r.Tests, room)
}
