package agents

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"interlock.sh/agent/enrollment"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/tray"
)

// found is an enrollment with the socket of its agent.
type found struct {
	agent  tray.Agent
	socket string
}

// discover lists the enrollments of a home, and in words those that are there and cannot be read.
func discover(home enrollment.Home) ([]found, []string) {
	list, err := home.List()
	broken := lines(err)
	var out []found
	for _, e := range list {
		f := found{agent: tray.Agent{
			Key: tray.Key{Group: e.Group, Role: e.Role}, GroupName: e.GroupName, Origin: e.Origin, Reach: tray.Asking,
		}}
		f.socket, err = home.Socket(e.Group, e.Role)
		if err == nil {
			err = ours(f.socket)
		}
		if err != nil {
			f.agent.Reach, f.agent.Why = tray.Foreign, said(err)
		}
		out = append(out, f)
	}
	slices.SortFunc(out, byName)
	return out, append(broken, halves(home, list)...)
}

// lines are the single errors that were joined.
func lines(err error) []string {
	if err == nil {
		return nil
	}
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) {
		return []string{said(err)}
	}
	var out []string
	for _, e := range many.Unwrap() {
		out = append(out, said(e))
	}
	return out
}

// said is an error without what a person cannot use.
func said(err error) string {
	var coded *fault.Error
	if errors.As(err, &coded) {
		return coded.Error()
	}
	return err.Error()
}

// ours refuses a socket that another user made: what listens there would get the owner's wishes and could
// show anything. One that is not there is no agent, which is found out by asking.
func ours(socket string) error {
	st, err := os.Lstat(socket)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the agent's socket: %w", err)
	}
	return ownedBy(os.Getuid(), st)
}

func ownedBy(uid int, st fs.FileInfo) error {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || int(sys.Uid) != uid {
		return fault.New(fault.ScopeDenied, "the agent's socket belongs to another user").WithHint("stop that user's agent and remove the socket")
	}
	return nil
}

// halves are groups with a role's credential that are no enrollment: somebody deleted half of the folder.
func halves(home enrollment.Home, list []enrollment.Enrollment) []string {
	groups, err := os.ReadDir(filepath.Join(string(home), "groups"))
	if err != nil {
		return nil // List has said so
	}
	var out []string
	for _, g := range groups {
		for _, role := range []fleet.Role{fleet.RoleClient, fleet.RoleTrainer} {
			dir := home.Role(g.Name(), role)
			for _, missing := range []string{filepath.Join(home.Group(g.Name()), "group.json"), filepath.Join(dir, "role.json"), filepath.Join(dir, "worker.env")} {
				if gone(missing) && !gone(dir) && !listed(list, g.Name(), role) {
					out = append(out, fmt.Sprintf("%s (%s) is half deleted: %s is gone; enroll again or remove the folder", g.Name(), role, filepath.Base(missing)))
					break
				}
			}
		}
	}
	return out
}

func gone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

func listed(list []enrollment.Enrollment, group string, role fleet.Role) bool {
	return slices.ContainsFunc(list, func(e enrollment.Enrollment) bool { return e.Group == group && e.Role == role })
}

// reachOf says what an answer, or its absence, means.
func reachOf(err error) (tray.Reach, string) {
	switch {
	case err == nil:
		return tray.Answers, ""
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return tray.Stopped, ""
	case errors.Is(err, fs.ErrPermission):
		return tray.Foreign, "the agent's socket is closed to this user"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return tray.Silent, "the agent does not answer"
	}
	return tray.Silent, said(err)
}
