package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"interlock.sh/fault"
)

// Host is the machine whose services are looked at and changed. Tests give it a folder for a root and
// commands of their own.
type Host struct {
	root    string                                                    // "" is the machine's own
	run     func(ctx context.Context, argv ...string) (string, error) // runs a command of the service manager
	account func(uid int) (account, error)                            // looks a user up
	folder  func(path string) (real string, uid int, err error)       // what a path leads to, and whose it is
	manager manager
	pause   time.Duration // before a command is tried again
}

// manager is what differs between systemd and launchd.
type manager interface {
	name() string
	dir() string                              // where its files stand
	render(u Unit) (map[string]string, error) // texts by file name
	userOf(text string) string                // who a rendered text runs as
	homeOf(text string) string                // the agent's folder that it is for, "" for none
	confines() bool                           // keeps a service from writing where its unit does not say
	unitOf(file string) string                // the service that a file belongs to, "" for none of ours
	extra(u Unit) map[string]string           // files elsewhere, by path, that help a unit and may be missing
	startAll(changed, idle []Unit) []command  // after the files are there
	start(name string) []command              // one that is installed
	stop(name string) []command               // until it is started again
	stopAll(units []Unit) []command           // before they are removed
	forget(units []Unit) []command            // after they were removed
	states(ctx context.Context, run func(context.Context, ...string) (string, error), units []Unit) (map[string]State, error)
}

// command is one call of the service manager.
type command struct {
	argv    []string
	mayFail bool     // undoing what may not have been done
	again   bool     // is refused while the end of the same service is under way
	gone    []string // asks for a service that must not be there afterwards, whatever argv said
}

// ThisHost is the machine that this program runs on. It refuses one whose init is neither systemd nor
// launchd: a service that only looks installed would be gone after a restart.
func ThisHost() (*Host, error) {
	h := &Host{run: runCommand, account: lookup, folder: folder, pause: time.Second}
	switch {
	case runtime.GOOS == "darwin":
		h.manager = launchd{}
	case isFolder("/run/systemd/system"):
		h.manager = systemd{facts: systemdFacts{version: systemdVersion(), selinux: exists("/sys/fs/selinux/enforce")}, polkit: isFolder(polkitRules)}
	default:
		return nil, noManager(initName())
	}
	return h, nil
}

// noManager is the refusal of a machine without a service manager that we know.
func noManager(init string) error {
	return fault.New(fault.Unavailable, "this machine's init is %s: a boot service needs systemd or launchd", init).
		WithHint("without one (--no-service) the agent runs until the machine restarts; then: interlock agent start")
}

func folder(path string) (string, int, error) { return folderOf(path, filepath.EvalSymlinks, lstat) }

// initName is what process 1 calls itself.
func initName() string {
	comm, err := os.ReadFile("/proc/1/comm")
	name := strings.TrimSpace(string(comm))
	if err != nil || name == "" {
		return "not known"
	}
	return strconv.Quote(name)
}

// runCommand runs a command and gives its output; a failure carries its last words.
func runCommand(ctx context.Context, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "SYSTEMD_PAGER=", "SYSTEMD_COLORS=0"}
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	if err != nil {
		words := strings.TrimSpace(problems.String())
		if words == "" {
			words = strings.TrimSpace(out.String())
		}
		return out.String(), fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, words)
	}
	return out.String(), nil
}

// accelerators are the groups whose members may use graphics devices without sitting at the machine. A
// service that starts before login belongs to no seat, so it must be in them.
var accelerators = []string{"render", "video"}

var userName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)

func lookup(uid int) (account, error) {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return account{}, fault.Wrap(err, fault.Invalid, "user %d has no name on this machine", uid)
	}
	a := account{name: u.Username, uid: uid, home: u.HomeDir}
	if !userName.MatchString(a.name) {
		return account{}, fault.New(fault.Invalid, "user name %q cannot stand in a service definition", a.name).
			WithHint("use another user, or --no-service")
	}
	if runtime.GOOS == "linux" {
		for _, name := range accelerators {
			if _, err := user.LookupGroup(name); err == nil {
				a.groups = append(a.groups, name)
			}
		}
	}
	return a, checkPath("home", a.home)
}

// at is a path of the host.
func (h *Host) at(path string) string { return filepath.Join(h.root, path) }

// read gives the text of a file of ours: "" when it is not there, a refusal when it is not ours.
func (h *Host) read(path string) (string, error) {
	info, err := os.Lstat(h.at(path))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look at %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return "", fault.New(fault.Conflict, "%s is no file: somebody masked or replaced that service", path).
			WithHint("unmask or remove it first")
	}
	text, err := os.ReadFile(h.at(path))
	if err != nil {
		return "", fmt.Errorf("look at %s: %w", path, err)
	}
	if !strings.Contains(string(text), strings.TrimPrefix(marker, "# ")) {
		return "", fault.New(fault.Conflict, "%s is there and was not written by interlock", path).WithHint("move it away first")
	}
	return string(text), nil
}

func isFolder(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
