//go:build linux

package uninstall

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestMain removes a folder when it is started again for that, as a user that the kernel refuses: root
// would be let through everywhere.
func TestMain(m *testing.M) {
	if home := os.Getenv("TEST_REMOVE_ALL"); home != "" {
		l, err := Machine{Home: home}.All()
		if err != nil || len(l.Remove()) > 0 {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Read-only folders inside are no obstacle, a folder of somebody else's is, and is named.
func TestReadOnlyFolders(t *testing.T) {
	const nobody = 65534
	dir, err := os.MkdirTemp("", "uninstall-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	home := filepath.Join(dir, "home")
	deep := filepath.Join(home, "groups/small-abc123/versions/d1")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(deep, "tiny.gguf"), nil, 0o400); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "program")
	if out, err := exec.Command("cp", self, program).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(program)
	cmd.Env = []string{"TEST_REMOVE_ALL=" + home}
	if os.Getuid() == 0 {
		if out, err := exec.Command("chown", "-R", "65534:65534", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	for _, d := range []string{deep, filepath.Dir(deep)} {
		if err := os.Chmod(d, 0o555); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("remove: %v\n%s", err, out)
	}
	if _, err := os.Lstat(home); err == nil {
		t.Error("the home folder is there still")
	}
}
