package service

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"interlock.sh/fault"
)

// Plan is what a request would do to this machine, step by step.
type Plan struct {
	User  string `json:"user"`  // who the services run as
	Steps []Step `json:"steps"` // empty when everything is as asked
	// Missing are folders that the services write to, and could not make: MakeMissing does, as the user.
	Missing []string `json:"missing,omitempty"`

	home    string // the agent's folder; "" for services of root's own
	units   []Unit
	write   map[string]string // paths and their texts
	remove  []string
	before  []command // the change of the files
	after   []command
	changed []Unit // those whose definition is new or another than the one that is there
	fresh   []Unit // of them those that had none
	ends    bool   // it removes
}

// Step is one line of a plan.
type Step struct {
	Who  string `json:"who"`  // root or the user
	Verb string `json:"verb"` // write, replace, remove, run
	What string `json:"what"` // a path or a command
}

// NeedsRoot reports whether anything has to be done.
func (p Plan) NeedsRoot() bool { return len(p.Steps) > 0 }

// Changed reports whether a service's definition differs from the one that it may be running under.
func (p Plan) Changed(s Spec) bool {
	return slices.ContainsFunc(p.changed, func(u Unit) bool { return u.Name == s.Name() })
}

// Plan compares a request with the machine. It changes nothing, and refuses what Apply would refuse.
func (h *Host) Plan(ctx context.Context, q Request) (Plan, error) {
	if err := q.check(); err != nil {
		return Plan{}, err
	}
	real, uid, err := h.folder(q.Home)
	if err != nil {
		return Plan{}, err
	}
	return h.plan(ctx, q, real, uid)
}

// plan is Plan for a home that leads to a folder of a user.
func (h *Host) plan(ctx context.Context, q Request, real string, uid int) (Plan, error) {
	who, err := h.user(q.Home, uid)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{User: who.name, home: q.Home, write: map[string]string{}}
	for _, s := range q.Services {
		p.units = append(p.units, s.unit(q.Home, real, who))
	}
	if q.Verb == Install {
		p.Missing = h.missing(p.units, who)
		err = h.planInstall(ctx, &p)
	} else {
		err = h.planRemove(ctx, &p, q.All)
	}
	if err != nil {
		return Plan{}, err
	}
	return p, nil
}

// PlanUnits compares units that root itself wants with the machine, and changes nothing.
func (h *Host) PlanUnits(ctx context.Context, units ...Unit) (Plan, error) {
	p := Plan{User: units[0].User, units: units, write: map[string]string{}}
	return p, h.planInstall(ctx, &p)
}

// PlanEnd is the removal of services of a user, by their names.
func (h *Host) PlanEnd(ctx context.Context, user string, names ...string) (Plan, error) {
	p := Plan{User: user, write: map[string]string{}}
	for _, name := range names {
		p.units = append(p.units, Unit{Name: name})
	}
	return p, h.planRemove(ctx, &p, false)
}

// user is the owner of a home folder, whom its services run as.
func (h *Host) user(home string, uid int) (account, error) {
	if uid == 0 {
		return account{}, fault.New(fault.Invalid, "%s belongs to root, and a service of models does not run as root", home).
			WithHint("paste the line as an ordinary user, or add --no-service")
	}
	return h.account(uid)
}

func (h *Host) planInstall(ctx context.Context, p *Plan) error {
	extra := map[string]string{}
	for _, u := range p.units {
		files, err := h.manager.render(u)
		if err != nil {
			return err
		}
		same, fresh := true, true
		for name, text := range files {
			path := filepath.Join(h.manager.dir(), name)
			old, err := h.read(path)
			if err != nil {
				return err
			}
			if by := h.manager.userOf(old); by != "" && by != u.User {
				return fault.New(fault.Conflict, "service %s of this machine runs as %s, and this one would run as %s", u.Name, by, u.User).
					WithHint("do this as %s, or without a service", by)
			}
			if home := h.manager.homeOf(old); home != "" && !h.sameHome(home, p.home) {
				return fault.New(fault.Conflict, "service %s of this machine is for %s, and this one would be for %s", u.Name, home, p.home).
					WithHint("use that folder (NIGHTSHIFT_HOME=%s), uninstall what is there, or do without a service: --no-service", home)
			}
			fresh = fresh && old == ""
			if old != text {
				same = false
				p.write[path] = text
				p.Steps = append(p.Steps, Step{"root", replaceWord(old), path})
			}
		}
		if !same {
			p.changed = append(p.changed, u)
			if fresh {
				p.fresh = append(p.fresh, u)
			}
		}
		maps.Copy(extra, h.manager.extra(u))
	}
	states, err := h.manager.states(ctx, h.run, p.units)
	if err != nil {
		return err
	}
	var idle []Unit
	for _, u := range p.units {
		if s := states[u.Name]; !s.Enabled || !s.Active {
			idle = append(idle, u)
		}
	}
	slices.SortFunc(p.Steps, func(a, b Step) int { return strings.Compare(a.What, b.What) })
	if len(p.changed)+len(idle) == 0 {
		return nil
	}
	// What only helps is no reason to ask for root, and a folder that a user may not look into is no
	// reason to fail.
	for _, path := range slices.Sorted(maps.Keys(extra)) {
		if old, err := h.read(path); errors.Is(err, fs.ErrPermission) || err == nil && old != extra[path] {
			p.write[path] = extra[path]
			p.Steps = append(p.Steps, Step{"root", replaceWord(old), path})
		}
	}
	p.after = h.manager.startAll(p.changed, idle)
	p.addCommands(p.after)
	return nil
}

func replaceWord(old string) string {
	if old == "" {
		return "write"
	}
	return "replace"
}

// planRemove takes the services that are there. Those that are not are passed over: an uninstall that
// broke off is finished by the next.
func (h *Host) planRemove(ctx context.Context, p *Plan, all bool) error {
	found, err := h.installed(p.User, p.home)
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, u := range p.units {
		wanted[u.Name] = true
	}
	p.units, p.ends = nil, true
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !wanted[name] && (!all || !ofAgent(name)) {
			continue
		}
		u := Unit{Name: name}
		for _, file := range found[name] {
			if strings.HasSuffix(file, ".timer") {
				u.Timer = &Timer{}
			}
			p.remove = append(p.remove, filepath.Join(h.manager.dir(), file))
		}
		p.units = append(p.units, u)
	}
	if len(p.units) == 0 {
		return nil
	}
	p.before, p.after = h.manager.stopAll(p.units), h.manager.forget(p.units)
	others, err := h.installed(p.User, "")
	if err != nil {
		return err
	}
	if len(others) == len(p.units) { // none is left that it helps
		for path := range h.manager.extra(Unit{User: p.User, Accelerator: true}) {
			if _, err := os.Lstat(h.at(path)); !errors.Is(err, fs.ErrNotExist) {
				p.remove = append(p.remove, path)
			}
		}
	}
	p.addCommands(p.before)
	for _, path := range p.remove {
		p.Steps = append(p.Steps, Step{"root", "remove", path})
	}
	p.addCommands(p.after)
	return nil
}

// ofAgent reports whether a service belongs to the agent of a machine, and goes when that is uninstalled.
func ofAgent(name string) bool {
	return strings.HasPrefix(name, Prefix+string(ModelWorker)+".") || name == Prefix+string(Updater) ||
		strings.HasPrefix(name, Prefix+string(Updater)+".")
}

func (p *Plan) addCommands(all []command) {
	for _, c := range all {
		p.Steps = append(p.Steps, Step{"root", "run", strings.Join(c.argv, " ")})
	}
}
