package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// TestTerminal runs scripts whose program has a terminal for its standard streams:
//
//	tty [-type TEXT] PROGRAM ARGS…
//
// types TEXT, where \n is the return key and $NAME stands as in the script, at the first prompt (a text
// that ends in ": " or "] "), and leaves what the terminal showed in the file "screen".
func TestTerminal(t *testing.T) {
	runScripts(t, "testdata/terminal", map[string]command{"tty": onTerminal})
}

func onTerminal(ts *testscript.TestScript, neg bool, args []string) {
	typed := ""
	if args[0] == "-type" {
		typed, args = strings.ReplaceAll(args[1], `\n`, "\n"), args[2:]
	}
	master, slave, err := openTerminal()
	ts.Check(err)
	defer master.Close()
	path, err := exec.LookPath(args[0])
	ts.Check(err)
	// The leader of a terminal's session takes the terminal down when it ends, and what was written last may
	// go with it. So a shell leads: it says how the program ended and waits until it is hung up on.
	cmd := exec.Command("/bin/sh", append([]string{"-c", `trap : INT; "$@"; printf '\036%d\036' $?; read -r _`, "sh", path}, args[1:]...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"HOME", "PATH", "API", "NO_COLOR", "INTERLOCK_SDK_KEY", "INTERLOCK_URL"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	cmd.Env = append(cmd.Env, "TERM=xterm-256color", "TMPDIR="+os.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	ts.Check(cmd.Start())
	_ = slave.Close()
	kill := time.AfterFunc(30*time.Second, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer kill.Stop()

	screen, code, err := watchScreen(master, typed)
	_ = master.Close() // hangs up
	_ = cmd.Wait()     // how the program ended is known; the shell ends by the hangup
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("screen"), screen, 0o600))
	if failed := code != "0"; failed != neg {
		ts.Fatalf("%s: exit code %s; the terminal showed\n%s", strings.Join(args, " "), code, screen)
	}
}

// watchScreen reads what the program shows until it ends with a code, and types at its first prompt.
func watchScreen(master *os.File, typed string) (screen []byte, code string, err error) {
	buf := make([]byte, 4096)
	for {
		n, err := master.Read(buf)
		screen = append(screen, buf[:n]...)
		if typed != "" && (bytes.HasSuffix(screen, []byte(": ")) || bytes.HasSuffix(screen, []byte("] "))) {
			if _, err := io.WriteString(master, typed); err != nil {
				return nil, "", err
			}
			typed = ""
		}
		if part := bytes.Split(screen, []byte{0o36}); len(part) == 3 {
			return bytes.ReplaceAll(part[0], []byte("\r\n"), []byte("\n")), string(part[1]), nil
		}
		if err != nil {
			return nil, "", fmt.Errorf("the terminal went before the program ended: %w, after %q", err, screen)
		}
	}
}

func openTerminal() (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 120})
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	return master, slave, nil
}
