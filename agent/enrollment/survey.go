package enrollment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"interlock.sh/fault"
	"interlock.sh/fleet"
)

// Damaged is an enrollment that is there and of which not everything can be read. Its agent may run all the
// same: it is reached by the name of its folder. What of the Enrollment could not be read is empty.
type Damaged struct {
	Enrollment
	Why error
}

// Survey finds every enrollment of this machine. A folder that is no enrollment is passed over.
func (h Home) Survey() (whole []Enrollment, damaged []Damaged, err error) {
	groups, err := os.ReadDir(filepath.Join(string(h), "groups"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list groups: %w", err)
	}
	for _, g := range groups {
		for _, role := range []fleet.Role{fleet.RoleClient, fleet.RoleTrainer} {
			e, err := h.load(g.Name(), role)
			switch {
			case err == nil:
				whole = append(whole, e)
			case !errors.Is(err, fs.ErrNotExist):
				damaged = append(damaged, Damaged{e, err})
			}
		}
	}
	return whole, damaged, nil
}

// Folders are the roles that have a folder on this machine, whatever is in it: enough to reach an agent by its
// process. Nothing but the names and Home is filled in.
func (h Home) Folders() ([]Enrollment, error) {
	groups, err := os.ReadDir(filepath.Join(string(h), "groups"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	var out []Enrollment
	for _, g := range groups {
		roles, err := os.ReadDir(filepath.Join(h.Group(g.Name()), "roles"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return nil, fmt.Errorf("list the roles of %s: %w", g.Name(), err)
		}
		for _, r := range roles {
			out = append(out, Enrollment{Home: h, Group: g.Name(), Role: fleet.Role(r.Name())})
		}
	}
	return out, nil
}

// List is the whole enrollments of a survey. The error says which ones cannot be read; the others are listed
// all the same.
func (h Home) List() ([]Enrollment, error) {
	whole, damaged, err := h.Survey()
	unread := []error{err}
	for _, d := range damaged {
		unread = append(unread, d.Why)
	}
	return whole, errors.Join(unread...)
}

// Find is the enrollment that a person means by a group's id or name and a role. Empty words match
// everything; the result must be one.
func (h Home) Find(group string, role fleet.Role) (Enrollment, error) {
	all, unread := h.List()
	return pick(all, unread, group, role)
}

// Reach is Find for what needs no more than an agent's door, process or folder, such as to pause, to stop and
// to remove it: a damaged enrollment is found too.
func (h Home) Reach(group string, role fleet.Role) (Enrollment, error) {
	whole, damaged, err := h.Survey()
	all := whole
	for _, d := range damaged {
		all = append(all, d.Enrollment)
	}
	return pick(all, err, group, role)
}

// pick is the one of all that the words match. The error of a survey says why there may be more.
func pick(all []Enrollment, unread error, group string, role fleet.Role) (Enrollment, error) {
	var found []Enrollment
	for _, e := range all {
		if e.Means(group, role) {
			found = append(found, e)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		if unread != nil {
			return Enrollment{}, unread
		}
		return Enrollment{}, notEnrolled(all, group, role)
	}
	return Enrollment{}, fault.New(fault.Invalid, "this machine has %d enrollments; say which", len(found)).WithHint("--group <id> --role <client|trainer>")
}

// Means reports whether a group's id or name, and a role, mean this enrollment; empty words mean every one.
func (e Enrollment) Means(group string, role fleet.Role) bool {
	return (group == "" || group == e.Group || group == e.GroupName) && (role == "" || role == e.Role)
}

// notEnrolled says what was looked for and what is there instead.
func notEnrolled(all []Enrollment, group string, role fleet.Role) error {
	if len(all) == 0 {
		return fault.New(fault.NotFound, "this machine is not enrolled in any group").
			WithHint("paste an install line on it: interlock models key rotate client --group <group> prints one")
	}
	what := "this machine is not enrolled"
	if group != "" {
		what += fmt.Sprintf(" in group %q", group)
	}
	if role != "" {
		what += " as " + string(role)
	}
	has := make([]string, len(all))
	for i, e := range all {
		has[i] = fmt.Sprintf("--group %s --role %s", e.Group, e.Role)
	}
	return fault.New(fault.NotFound, "%s", what).WithHint("it is with %s", strings.Join(has, ", "))
}
