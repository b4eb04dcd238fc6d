package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"interlock.sh/internal/atomicfile"
)

// record is one running child on disk: what a later agent must know to tell ours from foreign.
type record struct {
	Name string `json:"name"`
	Identity
	Port  int   `json:"port"`
	Leash Leash `json:"leash"`
}

// table is the file of records. It is rewritten, durably, at each start and end of a child.
type table struct {
	path string

	mu   sync.Mutex
	rows []record
}

// tableFile is the form of the file. Path is where it was written: a folder that was copied beside the
// original names children of the other agent, which are not ours to end.
type tableFile struct {
	Version  int      `json:"version"`
	Path     string   `json:"path,omitempty"`
	Children []record `json:"children"`
}

// openTable reads the file; a missing one is empty, as is the copy of another one. One that cannot be
// read is an error: it may name processes that are ours.
func openTable(path string) (*table, error) {
	t := &table{path: path}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the table of children: %w", err)
	}
	var f tableFile
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("read the table of children %s: %w", path, err)
	}
	if f.Path == "" || f.Path == path {
		t.rows = f.Children
	}
	return t, nil
}

// all is a copy of the records.
func (t *table) all() []record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.rows)
}

// put adds a record.
func (t *table) put(r record) error {
	return t.change(func(rows []record) []record { return append(rows, r) })
}

// remove drops the record of that process.
func (t *table) remove(id Identity) error {
	return t.change(func(rows []record) []record {
		return slices.DeleteFunc(rows, func(r record) bool { return r.Identity == id })
	})
}

func (t *table) change(edit func([]record) []record) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows := edit(slices.Clone(t.rows))
	slices.SortFunc(rows, func(a, b record) int { return strings.Compare(a.Name, b.Name) })
	b, err := json.MarshalIndent(tableFile{Version: 1, Path: t.path, Children: rows}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the table of children: %w", err)
	}
	if err := atomicfile.Write(t.path, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("record the children: %w", err)
	}
	t.rows = rows
	return nil
}
