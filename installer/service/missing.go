package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// nvidia is there while the driver is that keeps its cache in ~/.nv.
const nvidia = "/proc/driver/nvidia"

// missing are the caches that are not there. A service that starts without one has it read-only, and its
// model server compiles everything anew at each load.
func (h *Host) missing(units []Unit, who account) (out []string) {
	if !h.manager.confines() || !slices.ContainsFunc(units, func(u Unit) bool { return u.Accelerator }) {
		return nil
	}
	for _, name := range caches {
		if name == ".nv" && !exists(h.at(nvidia)) {
			continue
		}
		path := filepath.Join(who.home, name)
		if _, err := os.Lstat(h.at(path)); errors.Is(err, fs.ErrNotExist) {
			out = append(out, path)
		}
	}
	return out
}

// MakeMissing makes the folders that a plan says are missing, before its services start. The user runs it. Root,
// who installs for somebody, gives them to the owner of the folder that they are in, and follows no link there.
func (h *Host) MakeMissing(p Plan) error {
	for _, path := range p.Missing {
		if err := makeFor(h.at(path)); err != nil {
			return fmt.Errorf("make %s: %w", path, err)
		}
	}
	return nil
}

func makeFor(path string) (err error) {
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	name := filepath.Base(path)
	if err := dir.Mkdir(name, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	if os.Geteuid() != 0 {
		return nil
	}
	owner, err := lstat(filepath.Dir(path))
	if err != nil {
		return err
	}
	return dir.Lchown(name, owner.uid, -1)
}
