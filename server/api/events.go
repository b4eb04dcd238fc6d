package api

import (
	"net/http"
	"strings"

	"interlock.sh/access"
	"interlock.sh/server/hints"
)

// projectEvents hints at what changed in a project: machines, tasks, runs. The reader reads truth again.
func (a *API) projectEvents(w http.ResponseWriter, r *http.Request) error {
	project, err := a.project(r.Context(), r.URL.Query().Get("project"))
	if err != nil {
		return err
	}
	changed, cancel := a.Tasks.SubscribeProject(project)
	defer cancel()
	return a.hint(w, r, a.Hints.Subscribe(hints.Machines(project), hints.Runs(project)), changed, "tasks")
}

// workerEvents wakes a worker: "work" when a claim or a renewal may bring something, "desired" when a
// machine's desired state changed.
func (a *API) workerEvents(w http.ResponseWriter, r *http.Request) error {
	p := caller(r.Context())
	topics, worker := []string{}, r.URL.Query().Get("worker")
	if p.Kind == access.Machine {
		topics, worker = append(topics, hints.Machine(p.Machine)), p.Machine
	}
	changed, cancel := a.Tasks.SubscribeWorker(p.Project, worker)
	defer cancel()
	return a.hint(w, r, a.Hints.Subscribe(topics...), changed, "work")
}

// hint streams the kinds of the subscription's topics, and name at each change, until either side ends.
func (a *API) hint(w http.ResponseWriter, r *http.Request, sub *hints.Sub, changed <-chan struct{}, name string) error {
	defer sub.Close()
	s, err := openStream(w)
	if err != nil {
		return err
	}
	for {
		select {
		case <-r.Context().Done():
			return nil
		case <-a.closing:
			return nil
		case <-changed:
			err = s.event("", name, struct{}{})
		case <-sub.Wake():
			for _, topic := range sub.Take() {
				if err == nil {
					err = s.event("", eventName(topic), struct{}{})
				}
			}
		case <-a.info.Clock.After(heartbeat):
			err = s.comment("still here")
		}
		if err != nil {
			return nil // the reader is gone; it reads again when it comes back
		}
	}
}

// eventName is the kind of a topic as readers know it.
func eventName(topic string) string {
	kind, _, _ := strings.Cut(topic, "/")
	if kind == "machine" {
		return "desired"
	}
	return kind
}
