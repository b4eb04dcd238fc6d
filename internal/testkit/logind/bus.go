// Package logind is a login manager for tests: a private dbus-daemon, and on it what a program asks of
// org.freedesktop.login1, inhibitors and idle hints. A test says what it refuses and who sits there.
//
// It keeps nobody awake, and the machine's own bus is not touched.
package logind

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <listen>unix:path=SOCKET</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/><allow own="*"/><allow send_type="method_call"/><allow receive_sender="*"/><allow send_destination="*" eavesdrop="true"/>
  </policy>
</busconfig>
`

// Bus is a private message bus. Its address stays the same when it is started again.
type Bus struct {
	Address string

	t      testing.TB
	daemon string
	config string
	cmd    *exec.Cmd
}

// StartBus runs a dbus-daemon until the test's end; without the program the test fails.
func StartBus(t testing.TB) *Bus {
	t.Helper()
	daemon, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Fatalf("find dbus-daemon (the package dbus-daemon, or dbus, has it): %v", err)
	}
	dir, err := os.MkdirTemp("", "bus") // not t.TempDir: a socket's path has 104 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b := &Bus{t: t, daemon: daemon, Address: "unix:path=" + filepath.Join(dir, "s"), config: filepath.Join(dir, "conf")}
	if err := os.WriteFile(b.config, []byte(strings.ReplaceAll(busConfig, "SOCKET", filepath.Join(dir, "s"))), 0o600); err != nil {
		t.Fatal(err)
	}
	b.Start()
	t.Cleanup(b.Stop)
	return b
}

// Start runs the daemon and returns when it listens.
func (b *Bus) Start() {
	b.t.Helper()
	b.cmd = exec.Command(b.daemon, "--config-file="+b.config, "--nofork", "--print-address=1")
	b.cmd.Stderr = os.Stderr
	out, err := b.cmd.StdoutPipe()
	if err == nil {
		err = b.cmd.Start()
	}
	if err != nil {
		b.cmd = nil
		b.t.Fatal("start dbus-daemon: ", err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		b.t.Fatalf("dbus-daemon did not begin to listen: %v", err)
	}
}

// Stop kills the daemon, as a crash would.
func (b *Bus) Stop() {
	if b.cmd == nil {
		return
	}
	_ = b.cmd.Process.Kill() // gone already is as good
	_ = b.cmd.Wait()
	b.cmd = nil
}
