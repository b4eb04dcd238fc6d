package uninstall

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Left is an item that could not be removed, and why.
type Left struct {
	Item
	Why string `json:"why"`
}

// Remove takes away what the list names and says what is left of it. What is gone already is no failure.
// The home folder, and that of sockets outside of it, go too once they are empty.
func (l List) Remove() []Left {
	var left []Left
	for _, item := range l.Goes {
		if err := removeAll(item.Path); err != nil {
			left = append(left, Left{item, reason(err)})
		}
	}
	for _, dir := range append(l.dirs, l.home) {
		_ = os.Remove(dir) // holds something else still, or is gone
	}
	return left
}

// removeAll removes a folder even where somebody took the right to write from folders inside of it. It
// follows no link.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	walk := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			return os.Chmod(p, 0o700)
		}
		return err
	})
	if again := os.RemoveAll(path); again != nil {
		return errors.Join(again, walk)
	}
	return nil
}

// reason is a failure without the path, which is shown beside it.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return fmt.Sprintf("%s: %v", p.Path, p.Err)
	}
	return err.Error()
}
