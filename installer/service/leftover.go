package service

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"interlock.sh/fleet/build"
)

// Leftover lists the updaters of the owner of a home folder that nothing needs once the service of spec is gone:
// no agent runs out of their app folder. Where that cannot be told of an agent, none is left over.
func (h *Host) Leftover(home string, gone Spec) ([]Spec, error) {
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
	needed, updaters := map[string]bool{}, map[string]Spec{}
	for name, files := range found {
		if name == gone.Name() || !ofAgent(name) {
			continue
		}
		app, ok := h.appOf(files)
		if strings.HasPrefix(name, Prefix+string(ModelWorker)+".") {
			if !ok {
				return nil, nil
			}
			needed[app] = true
		} else if s := (Spec{Kind: Updater, App: app}); ok && s.Name() == name {
			updaters[app] = s
		}
	}
	var out []Spec
	for _, app := range slices.Sorted(maps.Keys(updaters)) {
		if !needed[app] {
			out = append(out, updaters[app])
		}
	}
	return out, nil
}

// programLine is the program of an app folder, in a service's definition of either manager.
var programLine = regexp.MustCompile(`/(` + build.AppFolder + `[^/]*)/(?:current|updater)/` + build.Interlock + `\b`)

// appOf is the name of the app folder that a service runs out of, by its files.
func (h *Host) appOf(files []string) (string, bool) {
	for _, file := range files {
		text, err := h.read(filepath.Join(h.manager.dir(), file))
		if err != nil {
			continue
		}
		if m := programLine.FindStringSubmatch(text); m != nil {
			_, ok := build.ReadApp(m[1])
			return m[1], ok
		}
	}
	return "", false
}
