package files_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/server/files"
)

const fullDiskEnv = "INTERLOCK_TEST_FULL_DISK"

// TestFullDisk runs out of space for real: in a mount namespace of its own, on a file system in
// memory of 6 MiB that grows when the tests ask for it. Free space is reported as plenty, so that
// writing is what fails.
func TestFullDisk(t *testing.T) {
	dir := os.Getenv(fullDiskEnv)
	if dir == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
		cmd.Env = append(os.Environ(), fullDiskEnv+"="+t.TempDir())
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("in its own namespace: %v\n%s", err, out)
		}
		return
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=6m"); err != nil {
		t.Fatalf("mount: %v", err)
	}
	grow := func() {
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=64m"); err != nil {
			t.Fatalf("remount: %v", err)
		}
	}
	shrink := func() {
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=6m"); err != nil {
			t.Fatalf("remount: %v", err)
		}
	}
	plenty := func(string) (int64, error) { return 1 << 40, nil }
	data := noise(11, 8<<20)
	path := fileOf(t, data)

	t.Run("upload", func(t *testing.T) {
		s := newStore(t, files.Options{Dir: filepath.Join(dir, "server"), FreeSpace: plenty})
		c := newClient(t, serve(t, routes(s)).URL)
		_, err := c.Upload(t.Context(), path, client.Transfer{})
		wantCode(t, err, fault.DiskFull, "the server's disk is full")
		again := begin(t, s, files.BeginRequest{SHA256: refOf(data).SHA256, Size: 8 << 20, Scope: "p1"})
		if again.Offset < 4<<20 {
			t.Errorf("only %d bytes of the upload were kept", again.Offset)
		}
		grow()
		upload(t, c, path, data, client.Transfer{})
		wantBlob(t, s, data)
		if err := os.RemoveAll(filepath.Join(dir, "server")); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("download", func(t *testing.T) {
		shrink()
		s := newStore(t, files.Options{})
		if _, err := s.PutBytes(t.Context(), data); err != nil {
			t.Fatal(err)
		}
		c := newClient(t, serve(t, routes(s)).URL)
		dst := filepath.Join(dir, "model.gguf")
		tr := client.Transfer{}
		tr.FreeSpace = plenty
		wantCode(t, c.Download(t.Context(), client.Ref(refOf(data)), dst, tr), fault.DiskFull, "what was downloaded is kept")
		st, err := os.Stat(dst + ".part")
		if err != nil || st.Size() < 4<<20 {
			t.Fatalf("partial: %v, %v", st, err)
		}
		grow()
		if err := c.Download(t.Context(), client.Ref(refOf(data)), dst, tr); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(dst); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	})
}
