package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"interlock.sh/fault"
)

// HasUser reports whether this machine has a user of that name.
func HasUser(name string) bool {
	_, err := user.Lookup(name)
	return err == nil
}

// AddUser is the command that makes a system user without a password, a shell or a home of its own.
func AddUser(name, data string) []string {
	return []string{"useradd", "--system", "--user-group", "--no-create-home", "--home-dir", data,
		"--shell", "/usr/sbin/nologin", "--comment", "Interlock control plane", name}
}

// Prepare makes the user and the data folder that are not there yet.
func Prepare(ctx context.Context, name, data string) error {
	if !HasUser(name) {
		argv := AddUser(name, data)
		if _, err := exec.LookPath(argv[0]); err != nil {
			return fault.Wrap(err, fault.NotFound, "this machine has no user %s, and no %s to make one", name, argv[0]).WithField("user").
				WithHint("make the user, or give --user")
		}
		if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("make user %s: %w: %s", name, err, out)
		}
	}
	uid, gid, err := ids(name)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(data); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(data), 0o755); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	if err := os.Chown(data, uid, gid); err != nil {
		return fmt.Errorf("give the data folder to %s: %w", name, err)
	}
	return nil
}

func ids(name string) (uid, gid int, err error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, fault.Wrap(err, fault.NotFound, "this machine has no user %s", name).WithField("user")
	}
	uid, err = strconv.Atoi(u.Uid)
	if err == nil {
		gid, err = strconv.Atoi(u.Gid)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("look up user %s: %w", name, err)
	}
	return uid, gid, nil
}

// Owner is the name of the user that a folder belongs to.
func Owner(dir string) (string, error) {
	st, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || !st.IsDir() {
		return "", fault.New(fault.Invalid, "%s is no folder", dir).WithField("data")
	}
	uid := strconv.Itoa(int(sys.Uid))
	u, err := user.LookupId(uid)
	if err != nil {
		return uid, nil //nolint:nilerr // an owner without a name is named by its number
	}
	return u.Username, nil
}

// RunAs has a command run as another user, when root runs it.
func RunAs(cmd *exec.Cmd, name string) error {
	uid, gid, err := ids(name)
	if err != nil {
		return err
	}
	if os.Geteuid() == uid {
		return nil
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return nil
}
