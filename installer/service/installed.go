package service

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
)

// sameHome reports whether two paths are one agent's folder. One that is gone is nobody's: what it left may
// be replaced.
func (h *Host) sameHome(old, now string) bool {
	if old == now {
		return true
	}
	real, _, err := h.folder(old)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	want, _, wantErr := h.folder(now)
	return err == nil && wantErr == nil && real == want
}

// installed gives the files of every service of ours that runs as a user and is for an agent's folder, or for
// none, by service; those for any folder when home is "".
func (h *Host) installed(name, home string) (map[string][]string, error) {
	entries, err := os.ReadDir(h.at(h.manager.dir()))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list services: %w", err)
	}
	out, mine := map[string][]string{}, map[string]bool{}
	for _, e := range entries {
		unit := h.manager.unitOf(e.Name())
		if unit == "" {
			continue
		}
		text, err := h.read(filepath.Join(h.manager.dir(), e.Name()))
		if err != nil {
			continue // not a file of ours
		}
		out[unit] = append(out[unit], e.Name())
		of := h.manager.homeOf(text)
		mine[unit] = mine[unit] || h.manager.userOf(text) == name && (home == "" || of == "" || h.sameHome(of, home))
	}
	maps.DeleteFunc(out, func(unit string, _ []string) bool { return !mine[unit] })
	return out, nil
}
