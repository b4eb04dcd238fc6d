// Package sessionbus gives tests a private D-Bus session bus, and reads and clicks the menus of items in the
// bar as a panel does. It starts no services and touches no bus of the machine.
package sessionbus

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/godbus/dbus/v5"
)

// Bus is a bus of its own.
type Bus struct {
	Address string
	Conn    *dbus.Conn // the test's

	dir    string
	daemon *exec.Cmd
}

const config = `<busconfig><type>session</type><listen>unix:dir=%s</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>`

// Start runs a bus and connects to it.
func Start() (*Bus, error) {
	dir, err := os.MkdirTemp("", "bus")
	if err != nil {
		return nil, err
	}
	b := &Bus{dir: dir}
	if err := b.start(); err != nil {
		return nil, errors.Join(err, b.Stop())
	}
	return b, nil
}

func (b *Bus) start() error {
	conf := filepath.Join(b.dir, "bus.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, config, b.dir), 0o600); err != nil {
		return err
	}
	b.daemon = exec.Command("dbus-daemon", "--config-file="+conf, "--nofork", "--nopidfile", "--print-address=1")
	out, err := b.daemon.StdoutPipe()
	if err != nil {
		return err
	}
	if err := b.daemon.Start(); err != nil {
		return fmt.Errorf("dbus-daemon is needed (packaging/dev/setup.sh installs it): %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the bus's address: %w", err)
	}
	b.Address = strings.TrimSpace(line)
	b.Conn, err = dbus.Connect(b.Address)
	return err
}

// Stop ends the bus.
func (b *Bus) Stop() error {
	if b.Conn != nil {
		_ = b.Conn.Close()
	}
	if b.daemon != nil && b.daemon.Process != nil {
		_ = b.daemon.Process.Kill()
		_ = b.daemon.Wait()
	}
	return os.RemoveAll(b.dir)
}

// Item is the item that a process has in the bar.
func (b *Bus) Item(pid int) Item {
	name := fmt.Sprintf("org.kde.StatusNotifierItem-%d-1", pid)
	return Item{Name: name, item: b.Conn.Object(name, "/StatusNotifierItem"), menu: b.Conn.Object(name, "/StatusNotifierItem/menu")}
}
