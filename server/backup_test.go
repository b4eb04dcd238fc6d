package server

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/server/store"
)

// Backups are whole, the oldest go, and one that broke off is cleared away.
func TestBackupsAreKept(t *testing.T) {
	data := t.TempDir()
	now := clock.NewFake(time.Date(2026, 3, 1, 3, 30, 0, 0, time.UTC))
	db, err := store.Open(t.Context(), store.Options{Dir: data, Clock: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closing(db.Close) })
	blob := filepath.Join(data, "files/blobs/sha256/ab/cdef")
	for path, text := range map[string]string{blob: "12345", filepath.Join(data, "files/uploads/u1"): "half", filepath.Join(data, backupFolder, partialBackup+"x", "interlock.db"): ""} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var last BackupReport
	for range 3 {
		if last, err = Backup(t.Context(), data, 2, now); err != nil {
			t.Fatal(err)
		}
		now.Advance(24 * time.Hour)
	}
	entries, err := os.ReadDir(filepath.Join(data, backupFolder))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"20260302T033000.000Z", "20260303T033000.000Z"}; !slices.Equal(names, want) {
		t.Errorf("the backups are %v, want %v", names, want)
	}
	if len(last.Removed) != 1 || last.Blobs != 1 || last.BlobBytes != 5 || last.DatabaseBytes == 0 {
		t.Errorf("the last says %+v", last)
	}
	if list, err := os.ReadFile(filepath.Join(last.Dir, backupBlobs)); err != nil || string(list) != "5 sha256/ab/cdef\n" {
		t.Errorf("it lists %q, %v", list, err)
	}
	if err := Restore(data, last.Dir); !errors.Is(err, fault.Conflict) {
		t.Errorf("restore under a server that runs: %v", err)
	}
	if err := Restore(data, data); !errors.Is(err, fault.NotFound) {
		t.Errorf("restore of what is no backup: %v", err)
	}
	if _, err := Backup(t.Context(), data, 0, now); !errors.Is(err, fault.Invalid) {
		t.Errorf("none kept: %v", err)
	}
	if _, err := Backup(t.Context(), filepath.Join(data, "none"), 1, now); !errors.Is(err, fault.NotFound) {
		t.Errorf("no data folder: %v", err)
	}
}

func TestRunningWithoutAServer(t *testing.T) {
	if _, err := Running(t.Context(), t.TempDir()); !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "no control plane serves on") {
		t.Errorf("it says %v", err)
	}
}
