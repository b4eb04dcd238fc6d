package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"interlock.sh/fault"
)

// TestMounts runs the checks of childMounts in a mount namespace of its own, since root writes
// through every mode bit: only a read-only mount and a full disk refuse it.
func TestMounts(t *testing.T) {
	cmd := child(t, "mounts", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	if out, err := cmd.Output(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func childMounts(dir string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	return errors.Join(readOnlyMount(filepath.Join(dir, "ro")), tinyDisk(filepath.Join(dir, "tiny")),
		fullDisk(filepath.Join(dir, "full")))
}

func openMounted(dir string, more ...string) (*DB, error) {
	return Open(context.Background(), Options{Dir: dir, Migrations: schema(more...)})
}

func refused(what string, err error, code fault.Code, words ...string) error {
	if fault.CodeOf(err) != code {
		return fmt.Errorf("%s: code %q: %w", what, string(fault.CodeOf(err)), err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			return fmt.Errorf("%s: %w does not say %q", what, err, w)
		}
	}
	return nil
}

func readOnlyMount(dir string) error {
	db, err := openMounted(dir)
	if err != nil {
		return err
	}
	if err := db.Write(context.Background(), LaneAdmit, insert(1)); err != nil {
		return err
	}
	if err := db.Close(context.Background()); err != nil {
		return err
	}
	if err := syscall.Mount(dir, dir, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	if err := syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return err
	}
	_, err = openMounted(dir)
	below := filepath.Join(dir, "below")
	_, err2 := openMounted(below)

	// The folder writable, the database alone not.
	file := filepath.Join(dir, fileName)
	if err := syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT, ""); err != nil {
		return err
	}
	if err := errors.Join(syscall.Mount(file, file, "", syscall.MS_BIND, ""),
		syscall.Mount("", file, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")); err != nil {
		return err
	}
	_, err3 := openMounted(dir)
	return errors.Join(refused("read-only folder", err, fault.Invalid, dir, "cannot be written", "--data"),
		refused("a folder in it", err2, fault.Invalid, below, "cannot be written", "--data"),
		refused("read-only file", err3, fault.Invalid, file, "cannot be written", "--data"))
}

func tmpfs(dir, size string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size)
}

// tinyDisk has room for the lock but not for a database.
func tinyDisk(dir string) error {
	if err := tmpfs(dir, "8k"); err != nil {
		return err
	}
	_, err := openMounted(dir)
	if _, serr := os.Stat(filepath.Join(dir, fileName)); serr == nil {
		return errors.New("a database was left on the tiny disk")
	}
	return refused("no room to create", err, fault.DiskFull, dir, "free space")
}

// fullDisk runs full while the server runs, and while it migrates; both recover with the space.
func fullDisk(dir string) error {
	if err := tmpfs(dir, "2m"); err != nil {
		return err
	}
	db, err := openMounted(dir)
	if err != nil {
		return err
	}
	write := func(id int64, size int) error {
		return db.Write(context.Background(), LaneAdmit, func(tx *Tx) error {
			_, err := tx.Exec("INSERT INTO items (id, name) VALUES ($1, $1 || hex(zeroblob($2)))", id, size)
			return err
		})
	}
	stuffing := filepath.Join(dir, "stuffing")
	if err := write(0, 100_000); err != nil {
		return err
	}
	if err := os.WriteFile(stuffing, make([]byte, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk is not full: %w", err)
	}
	err = write(1, 100_000)
	full := refused("no room to write", err, fault.Unknown, dir, "free space")
	if err := os.Remove(stuffing); err != nil {
		return err
	}
	if err := write(2, 10); err != nil {
		return fmt.Errorf("after space came back: %w", err)
	}
	if err := db.Close(context.Background()); err != nil {
		return err
	}

	if err := os.WriteFile(stuffing, make([]byte, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk is not full: %w", err)
	}
	_, err = openMounted(dir, goodMore)
	migrating := refused("no room to migrate", err, fault.DiskFull, dir, "free space")
	if list, err := snapshots(dir); err != nil || len(list) > 0 {
		return fmt.Errorf("a snapshot takes the space that is missing: %v, %w", list, err)
	}
	if err := os.Remove(stuffing); err != nil {
		return err
	}
	if db, err = openMounted(dir, goodMore); err != nil {
		return fmt.Errorf("migrate after space came back: %w", err)
	}
	var n, sum int
	if err := db.QueryRow(context.Background(), "SELECT count(*), sum(id) FROM items").Scan(&n, &sum); err != nil {
		return err
	}
	if n != 2 || sum != 2 {
		return fmt.Errorf("%d rows with the sum %d", n, sum)
	}
	return errors.Join(full, migrating, db.Close(context.Background()))
}
