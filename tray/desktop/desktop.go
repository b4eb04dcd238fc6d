// Package desktop is what the app asks of the desktop it runs on and of the programs that are installed
// beside it: whether there is a desktop, to open an address, and to have `interlock` check for updates or
// remove everything. It shows nothing and knows no agent.
package desktop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"interlock.sh/agent/enrollment"
	"interlock.sh/fault"
	"interlock.sh/fleet/build"
	"interlock.sh/tray"
)

// Desktop is the desktop of this process.
type Desktop struct {
	OS     string                  // as runtime.GOOS
	Getenv func(key string) string // os.Getenv
	Home   string                  // the home of Nightshift, where the programs are
}

// Session refuses a place without a desktop.
func (d Desktop) Session() error {
	if d.OS == "darwin" || d.Getenv("DISPLAY") != "" || d.Getenv("WAYLAND_DISPLAY") != "" {
		return nil
	}
	return fault.New(fault.Unavailable, "Nightshift needs a desktop, and neither DISPLAY nor WAYLAND_DISPLAY is set").
		WithHint("start it in a desktop session; without one use: interlock agent status")
}

// Bar refuses a desktop on which no program can put an item into the bar.
func (d Desktop) Bar() error {
	if d.OS == "darwin" || d.Getenv("DBUS_SESSION_BUS_ADDRESS") != "" {
		return nil
	}
	if run := d.Getenv("XDG_RUNTIME_DIR"); run != "" {
		if _, err := os.Stat(filepath.Join(run, "bus")); err == nil {
			return nil
		}
	}
	return fault.New(fault.Unavailable, "Nightshift needs the session bus, and DBUS_SESSION_BUS_ADDRESS is not set").
		WithHint("start it from the desktop's menu, or with dbus-run-session")
}

// Window refuses a desktop without the X server that the window needs.
func (d Desktop) Window() error {
	if d.OS == "darwin" || d.Getenv("DISPLAY") != "" {
		return nil
	}
	return fault.New(fault.Unavailable, "the window of Nightshift needs DISPLAY; a Wayland desktop gives one through Xwayland").
		WithHint("install xwayland, or use: interlock agent status")
}

// openIn bounds the program that opens addresses: it only hands them on.
const openIn = 20 * time.Second

// Open shows an address in the user's browser.
func (d Desktop) Open(ctx context.Context, address string) error {
	if !tray.Web(address) {
		return fault.New(fault.Invalid, "%q is no web address", tray.Plain(address))
	}
	program := "xdg-open"
	if d.OS == "darwin" {
		program = "/usr/bin/open"
	}
	ctx, cancel := context.WithTimeout(ctx, openIn)
	defer cancel()
	if _, err := run(ctx, program, address); err != nil {
		return fault.Wrap(err, fault.Unavailable, "%s cannot open %s: %v", filepath.Base(program), address, err).WithHint("open it in a browser")
	}
	return nil
}

// Installs are the installed programs of this machine, that of the common app folder first.
func (d Desktop) Installs() []string { return d.current(build.Interlock) }

// current are the links to a program in the app folders of this machine. A home that cannot be read has none.
func (d Desktop) current(program string) []string {
	apps, _ := enrollment.Home(d.Home).Apps()
	var out []string
	for _, app := range apps {
		path := filepath.Join(app, "current", program)
		if _, err := os.Lstat(path); err == nil {
			out = append(out, path)
		}
	}
	return out
}

const checkIn = 2 * time.Minute

// CheckUpdates has each installed program look for a newer one. It installs nothing.
func (d Desktop) CheckUpdates(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkIn)
	defer cancel()
	programs := d.Installs()
	if len(programs) == 0 {
		return d.notInstalled()
	}
	var errs []error
	for _, p := range programs {
		if _, err := run(ctx, p, "agent", "update", "--check"); err != nil {
			errs = append(errs, fault.Wrap(err, fault.Unavailable, "updates cannot be checked: %v", err))
		}
	}
	return errors.Join(errs...)
}

func (d Desktop) notInstalled() error {
	return fault.New(fault.NotFound, "there is no interlock under %s", filepath.Join(d.Home, "app")).
		WithHint("install it again with the group's install line")
}

// Uninstall removes everything of this machine. What it printed comes back in either case: when it was
// refused, that says what is left. The caller has asked the owner.
func (d Desktop) Uninstall(ctx context.Context) (string, error) {
	programs := d.Installs()
	if len(programs) == 0 {
		return "", d.notInstalled()
	}
	out, err := run(ctx, programs[0], "agent", "uninstall", "--all", "--yes")
	if err != nil {
		return out, fault.Wrap(err, fault.Conflict, "not everything was removed: %v", err).
			WithHint("try again, or in a terminal: interlock agent uninstall --all")
	}
	return out, nil
}

// run gives what a program printed, without its own error text, and an error that has the last of that.
func run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second // what it left running may hold its pipes
	err := cmd.Run()
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return out.String(), nil
	case ctx.Err() != nil:
		return out.String(), fmt.Errorf("%s did not end in time", filepath.Base(program))
	}
	if words := lastLine(errs.String()); words != "" {
		return out.String(), errors.New(words)
	}
	return out.String(), err
}

// lastLine is the last line that says something, without the name of the program.
func lastLine(text string) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimPrefix(strings.TrimSpace(all[len(all)-1]), "interlock: ")
}

// Program is where this app is started from for good: the link that updates move, when it stands in an app
// folder, else the file itself. An update would leave the file of a version behind.
func (d Desktop) Program(executable string) string {
	st, err := os.Stat(executable)
	if err != nil {
		return executable
	}
	for _, l := range d.current(filepath.Base(executable)) {
		if other, err := os.Stat(l); err == nil && os.SameFile(st, other) {
			return l
		}
	}
	return executable
}

// Replaced is the test whether another file stands at program than stood there now. One that is gone, as in
// the middle of a swap or after an uninstall, is no replacement.
func (d Desktop) Replaced(program string) func() bool {
	was, err := os.Stat(program)
	return func() bool {
		if err != nil {
			return false
		}
		is, gone := os.Stat(program)
		return gone == nil && !os.SameFile(was, is)
	}
}

// Removed reports that everything was uninstalled by somebody else: neither a program nor a group is left.
func (d Desktop) Removed(program string) bool {
	for _, path := range []string{program, filepath.Join(d.Home, "groups")} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}
