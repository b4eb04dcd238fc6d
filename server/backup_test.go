package server

import (
	"errors"
	"maps"
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
	if _, err := Restore(data, last.Dir); !errors.Is(err, fault.Conflict) {
		t.Errorf("restore under a server that runs: %v", err)
	}
	if _, err := Restore(data, data); !errors.Is(err, fault.NotFound) {
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

// Keys keep their permissions, what a write left half done is not copied, and nothing that is there is
// replaced: releases may be newer, keys may be pinned.
func TestRestoreIntoAnEmptyFolder(t *testing.T) {
	data := t.TempDir()
	db, err := store.Open(t.Context(), store.Options{Dir: data, Clock: clock.System})
	if err != nil {
		t.Fatal(err)
	}
	defer closing(db.Close) //nolint:errcheck // of a test
	texts := map[string]os.FileMode{
		"tls/ca.key": 0o600, "tls/ca.pem": 0o644, "tls/server.key": 0o600, "tls/acme/acme_account+key": 0o600, "tls/acme/fleet.example.org": 0o600,
		"releases/metadata/1.root.json": 0o600, "releases/metadata/timestamp.json": 0o600,
	}
	write := func(name string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(data, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("text of "+name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range texts {
		write(name, mode)
	}
	write("tls/.ca.pem.tmp-1", 0o600)
	write("releases/incoming/9.root.json", 0o600)
	b, err := Backup(t.Context(), data, 1, clock.System)
	if err != nil || !slices.Equal(b.Folders, []string{"tls", "releases/metadata"}) {
		t.Fatalf("%+v, %v", b, err)
	}

	fresh := filepath.Join(t.TempDir(), "new")
	r, err := Restore(fresh, b.Dir)
	if err != nil || !slices.Equal(r.Folders, b.Folders) || len(r.Kept) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	var got []string
	for _, top := range []string{"tls", "releases"} {
		err := filepath.WalkDir(filepath.Join(fresh, top), func(path string, d os.DirEntry, err error) error {
			info, infoErr := d.Info()
			if err := errors.Join(err, infoErr); err != nil {
				return err
			}
			name := strings.TrimPrefix(path, fresh+"/")
			if d.IsDir() {
				if info.Mode().Perm() != 0o700 {
					t.Errorf("%s has mode %v", name, info.Mode())
				}
				return nil
			}
			got = append(got, name)
			text, err := os.ReadFile(path)
			if info.Mode().Perm() != texts[name] || string(text) != "text of "+name {
				t.Errorf("%s: mode %v, %q", name, info.Mode(), text)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(maps.Keys(texts))) {
		t.Errorf("it has %v", got)
	}
	if _, err := os.Stat(filepath.Join(fresh, backupDatabase)); err != nil {
		t.Error(err)
	}

	// A second one replaces the database alone, also where what is there is another's.
	key := filepath.Join(fresh, "tls/server.key")
	if err := errors.Join(os.WriteFile(key, []byte("another"), 0o600), os.RemoveAll(filepath.Join(fresh, "releases/metadata")), os.Mkdir(filepath.Join(fresh, "releases/metadata"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if r, err = Restore(fresh, b.Dir); err != nil || !slices.Equal(r.Kept, []string{"tls"}) || !slices.Equal(r.Folders, []string{"releases/metadata"}) {
		t.Errorf("%+v, %v", r, err)
	}
	if text, err := os.ReadFile(key); err != nil || string(text) != "another" {
		t.Errorf("the key is %q, %v", text, err)
	}
}

// A set that is published while it is copied is the set before or the set after: the timestamp is copied
// first, and what it names was written before it.
func TestBackupTakesTheTimestampFirst(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	for _, name := range []string{"1.root.json", "2.targets.json", "timestamp.json"} {
		if err := os.WriteFile(filepath.Join(from, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/dev/null", filepath.Join(from, "1.snapshot.json")); err != nil { // stops the copy
		t.Fatal(err)
	}
	if err := copyTree(from, to); err == nil || !strings.Contains(err.Error(), "1.snapshot.json is no file") {
		t.Errorf("a device: %v", err)
	}
	if _, err := os.Stat(filepath.Join(to, "timestamp.json")); err != nil {
		t.Error("the timestamp was not the first:", err)
	}
}
