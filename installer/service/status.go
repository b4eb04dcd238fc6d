package service

import (
	"context"
	"maps"
	"slices"
)

// State is what the service manager says of one service.
type State struct {
	Name      string `json:"name"`
	Installed bool   `json:"installed"`
	Enabled   bool   `json:"enabled"` // starts with the machine
	Active    bool   `json:"active"`
	Words     string `json:"words"` // in the manager's own
	Pid       int    `json:"pid,omitempty"`
	Restarts  int    `json:"restarts,omitempty"` // since it was started by somebody
}

// Manager is the name of the machine's service manager.
func (h *Host) Manager() string { return h.manager.name() }

// States asks for the named services.
func (h *Host) States(ctx context.Context, names ...string) ([]State, error) {
	var units []Unit
	for _, name := range names {
		u := Unit{Name: name}
		if h.hasTimer(name) {
			u.Timer = &Timer{}
		}
		units = append(units, u)
	}
	found, err := h.manager.states(ctx, h.run, units)
	if err != nil {
		return nil, err
	}
	out := make([]State, len(names))
	for i, name := range names {
		out[i] = found[name]
		out[i].Name = name
	}
	return out, nil
}

func (h *Host) hasTimer(name string) bool {
	return exists(h.at(h.manager.dir() + "/" + name + ".timer"))
}

// Installed lists the agent services of the owner of a home folder, by name.
func (h *Host) Installed(home string) ([]string, error) {
	_, uid, err := h.folder(home)
	if err != nil {
		return nil, err
	}
	who, err := h.user(home, uid)
	if err != nil {
		return nil, err
	}
	found, err := h.installed(who.name, home)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(found)), func(name string) bool { return !ofAgent(name) }), nil
}

// Has reports whether a service of that name is installed on this machine, whoever it runs as.
func (h *Host) Has(s Spec) bool {
	for _, ending := range []string{".service", ".plist"} {
		if exists(h.at(h.manager.dir() + "/" + s.Name() + ending)) {
			return true
		}
	}
	return false
}
