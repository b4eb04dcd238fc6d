// Package models keeps model files on a machine: once each, by digest, in a cache that all groups
// share, and as links in a folder for each deployment. It fetches what is missing and finds bytes that
// changed on disk. It starts nothing.
package models

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/atomicfile"
	"interlock.sh/internal/diskspace"
)

// Source gives the bytes of a digest, resumed and checked: the control plane's client does.
type Source interface {
	Download(ctx context.Context, want client.Ref, dst string, t client.Transfer) error
}

// Cache is the folder of model files.
type Cache struct {
	Pace client.Pace // limits downloads; nil does not. It is set before the cache is used.

	dir       string
	freeSpace func(dir string) (int64, error)
}

// NewCache uses dir, which is made when the first file is fetched. free says how many bytes the disk of
// a folder has left; nil asks the system.
func NewCache(dir string, free func(dir string) (int64, error)) *Cache {
	if free == nil {
		free = diskspace.Free
	}
	return &Cache{dir: dir, freeSpace: free}
}

// Path is where a digest's bytes are, or will be.
func (c *Cache) Path(sha256 string) string { return filepath.Join(c.dir, sha256) }

// spaceFloor stays free on the machine's disk: a full disk breaks more than models.
const spaceFloor = 512 << 20

// Ensure has every file of a deployment in the cache, fetching what is missing or damaged. Before the
// first byte it checks that all of it fits: fault.DiskFull says what is needed and what is free.
// progress is called with bytes on disk and bytes in all.
func (c *Cache) Ensure(ctx context.Context, src Source, files []fleet.File, progress func(done, total int64)) error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("make model cache: %w", err)
	}
	var total, have int64
	var missing []fleet.File
	for _, f := range files {
		total += f.Size
		err := c.Check(ctx, f, false)
		if err == nil {
			have += f.Size
			continue
		}
		if ctx.Err() != nil {
			return err
		}
		missing = append(missing, f)
	}
	if err := c.fits(missing); err != nil {
		return err
	}
	progress(have, total)
	for _, f := range missing {
		if err := c.fetch(ctx, src, f, func(done, _ int64) { progress(have+done, total) }); err != nil {
			return err
		}
		have += f.Size
		progress(have, total)
	}
	return nil
}

// fits compares what is still to come with the free disk.
func (c *Cache) fits(missing []fleet.File) error {
	var need int64
	for _, f := range missing {
		need += f.Size
		// What a broken download left counts, and so does a damaged file, which goes before it comes anew.
		for _, there := range []string{c.Path(f.SHA256) + ".part", c.Path(f.SHA256)} {
			if st, err := os.Stat(there); err == nil {
				need -= min(st.Size(), f.Size)
			}
		}
	}
	if need <= 0 {
		return nil
	}
	free, err := c.freeSpace(c.dir)
	if err != nil {
		return fmt.Errorf("look at the free disk: %w", err)
	}
	if free < need+spaceFloor {
		return full(nil, need, free)
	}
	return nil
}

// full says in which numbers the disk is too small for what is still to come.
func full(cause error, need, free int64) *fault.Error {
	return fault.Wrap(cause, fault.DiskFull, "disk: needs %s and %s to spare, has %s free", size(need), size(spaceFloor), size(free)).
		With("needs", need+spaceFloor).With("has", free).WithHint("free some space: the download goes on by itself then")
}

// fetch downloads one file. Several agents of a machine may want it at once: one fetches, the others
// wait and find it there.
func (c *Cache) fetch(ctx context.Context, src Source, f fleet.File, progress func(done, total int64)) error {
	path := c.Path(f.SHA256)
	lock := flock.New(path + ".lock")
	got, err := lock.TryLockContext(ctx, lockPoll)
	if err != nil || !got {
		return fmt.Errorf("wait for another download of %s: %w", f.Name, errors.Join(err, context.Cause(ctx)))
	}
	defer lock.Unlock() //nolint:errcheck // closing the file releases it as well
	switch err := c.Check(ctx, f, false); {
	case err == nil:
		return nil // another agent fetched it meanwhile
	case ctx.Err() != nil:
		return err
	case !errors.Is(err, fs.ErrNotExist):
		if err := c.discard(f.SHA256); err != nil {
			return err
		}
	}
	err = src.Download(ctx, client.Ref{SHA256: f.SHA256, Size: f.Size}, path, client.Transfer{Progress: progress, SpaceFloor: spaceFloor, FreeSpace: c.freeSpace, Pace: c.Pace})
	if errors.Is(err, fault.DiskFull) { // another program took the space meanwhile: the partial file stays
		return c.filled(f, err)
	}
	if err != nil {
		return fmt.Errorf("download %s: %w", f.Name, err)
	}
	return c.seal(f.SHA256)
}

// filled says the numbers of a disk that filled up under a download.
func (c *Cache) filled(f fleet.File, cause error) error {
	need := f.Size
	if st, err := os.Stat(c.Path(f.SHA256) + ".part"); err == nil {
		need -= min(st.Size(), f.Size)
	}
	free, err := c.freeSpace(c.dir)
	if err != nil {
		return errors.Join(fmt.Errorf("download %s: %w", f.Name, cause), err)
	}
	return full(cause, need, free)
}

// discard removes a file that is not what its name says, with its seal.
func (c *Cache) discard(sha256 string) error {
	for _, p := range []string{c.sealPath(sha256), c.Path(sha256)} {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("discard damaged model file: %w", err)
		}
	}
	return nil
}

// Link makes a deployment's folder: one link a file, under the file's own name, none that the
// deployment does not name. It returns the path of the first file.
func (c *Cache) Link(dir string, files []fleet.File) (string, error) {
	if len(files) == 0 {
		return "", fault.New(fault.Invalid, "the deployment names no files").WithHint("deploy a release that has some")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make %s: %w", dir, err)
	}
	want := map[string]bool{}
	for _, f := range files {
		if err := fleet.CheckFileName("files.name", f.Name); err != nil {
			return "", err // the control plane checks it; this machine does not rely on that
		}
		want[f.Name] = true
		if err := atomicfile.Symlink(c.Path(f.SHA256), filepath.Join(dir, f.Name)); err != nil {
			return "", err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("list %s: %w", dir, err)
	}
	for _, e := range entries {
		if !want[e.Name()] {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return "", fmt.Errorf("remove what the deployment does not name: %w", err)
			}
		}
	}
	return filepath.Join(dir, files[0].Name), nil
}

// size is a number of bytes as people read it.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	div, exp := int64(unit), 0
	for m := n / unit; m >= unit; m /= unit {
		div *= unit
		exp++
	}
	return fmt.Sprintf("%.1f %ciB", float64(n)/float64(div), "KMGTPE"[exp])
}
