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

// discover lists the enrollments of a home, and in words those that are there and cannot be read. Of these, too,
// an agent may run: with its door there it is listed, since its owner must be able to pause it.
func discover(home enrollment.Home) ([]found, []string) {
	whole, damaged, err := home.Survey()
	var broken []string
	if err != nil {
		broken = append(broken, said(err))
	}
	var out []found
	for _, e := range whole {
		out = append(out, find(e))
	}
	known := map[tray.Key]bool{}
	for _, d := range damaged {
		broken = append(broken, fmt.Sprintf("%s (%s): %s", d.GroupName, d.Role, said(d.Why)))
		f := find(d.Enrollment)
		known[f.agent.Key] = true
		if f.agent.Reach == tray.Asking && !gone(f.socket) {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, byName)
	return out, append(broken, bare(home, known)...)
}

// find is an enrollment as it is shown before its agent was asked.
func find(e enrollment.Enrollment) found {
	f := found{agent: tray.Agent{
		Key: tray.Key{Group: e.Group, Role: e.Role}, GroupName: e.GroupName, Origin: e.Origin, Reach: tray.Asking,
	}}
	var err error
	if f.socket, err = e.Home.Socket(e.Group, e.Role); err != nil {
		f.agent.Reach, f.agent.Why = tray.Foreign, said(err)
	}
	return f
}

// said is an error without what a person cannot use.
func said(err error) string {
	var coded *fault.Error
	if errors.As(err, &coded) {
		return coded.Error()
	}
	return err.Error()
}

// bare are roles without a credential, and without an agent: nothing of them works, and nothing is known to
// have. The damaged ones are named already.
func bare(home enrollment.Home, damaged map[tray.Key]bool) []string {
	groups, err := os.ReadDir(filepath.Join(string(home), "groups"))
	if err != nil {
		return nil // the survey has said so
	}
	var out []string
	for _, g := range groups {
		for _, role := range []fleet.Role{fleet.RoleClient, fleet.RoleTrainer} {
			dir := home.Role(g.Name(), role)
			if !gone(dir) && gone(filepath.Join(dir, "worker.env")) && !damaged[tray.Key{Group: g.Name(), Role: role}] {
				out = append(out, fmt.Sprintf("%s (%s) is half deleted: worker.env is gone; enroll again or remove the folder", g.Name(), role))
			}
		}
	}
	return out
}

func gone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
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
	case errors.Is(err, fault.ScopeDenied): // another user put it there: what listens would get the owner's wishes
		return tray.Foreign, said(err)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return tray.Silent, "the agent does not answer"
	}
	return tray.Silent, said(err)
}
