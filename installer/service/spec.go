package service

import (
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
)

// Prefix begins the name of every service of Interlock.
const Prefix = "sh.interlock."

// Kind is one sort of service.
type Kind string

// The kinds.
const (
	ModelWorker Kind = "model-worker" // the agent of one group and role
	Updater     Kind = "updater"      // looks for updates now and then
	TaskWorker  Kind = "task-worker"  // the worker of "Your hardware"
)

// Spec names one service of a user. It is what a request carries: every field is checked, and the unit's
// text is made from it on root's side.
type Spec struct {
	Kind  Kind   `json:"kind"`
	Group string `json:"group,omitempty"` // model-worker: the model id
	Role  string `json:"role,omitempty"`  // model-worker: client or trainer
	App   string `json:"app,omitempty"`   // the app folder's name: app, or app-<8 hex> for another root of trust
}

var slug = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$`)

// Name is the service's name, the same on every system.
func (s Spec) Name() string {
	switch s.Kind {
	case ModelWorker:
		return Prefix + string(ModelWorker) + "." + s.Group + "." + s.Role
	case Updater:
		if mark, _ := build.ReadApp(s.App); mark != "" {
			return Prefix + string(Updater) + "." + mark
		}
	}
	return Prefix + string(s.Kind)
}

// Check refuses what no service of ours is called.
func (s Spec) Check() error {
	refuse := func(field, value, rule string) error {
		return fault.New(fault.Invalid, "%s %q of a service %s", field, value, rule).WithField(field)
	}
	if _, ok := build.ReadApp(s.App); !ok {
		return refuse("app", s.App, "is neither app nor app- and eight hexadecimal digits")
	}
	switch s.Kind {
	case ModelWorker:
		if !slug.MatchString(s.Group) {
			return refuse("group", s.Group, "is no model id: small letters, digits and hyphens, at most 63")
		}
		if s.Role != "client" && s.Role != "trainer" {
			return refuse("role", s.Role, "is neither client nor trainer")
		}
		return nil
	case Updater, TaskWorker:
		if s.Group != "" || s.Role != "" {
			return refuse("group", s.Group, "belongs to a model worker only")
		}
		return nil
	}
	return refuse("kind", string(s.Kind), "is none of model-worker, updater, task-worker")
}

// checkPath refuses a path that could not stand in a unit: a relative one, one that is not in its
// shortest form, and one with characters that a service manager would read as something else.
func checkPath(what, path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" {
		return fault.New(fault.Invalid, "%s %q is no absolute path in its shortest form", what, path).WithField(what)
	}
	if !utf8.ValidString(path) {
		return fault.New(fault.Invalid, "%s %q is no text", what, path).WithField(what).WithHint("move it to a path of ordinary characters")
	}
	for _, r := range path {
		if !unicode.IsPrint(r) || strings.ContainsRune(`"'\$`+"`", r) {
			return fault.New(fault.Invalid, "%s %q has the character %q, which a service definition cannot hold", what, path, r).WithField(what).
				WithHint("move it to a path without quotes, dollar signs and control characters")
		}
	}
	return nil
}
