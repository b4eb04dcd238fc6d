package api

import (
	"net/http"

	"interlock.sh/access"
	"interlock.sh/server/hints"
)

// projectEvents hints at what changed in a project: machines, tasks, runs. The reader reads truth again.
func (a *API) projectEvents(w http.ResponseWriter, r *http.Request) error {
	project, err := a.project(r.Context(), r.URL.Query().Get("project"))
	if err != nil {
		return err
	}
	machines, stopMachines := a.Hints.Subscribe(hints.Machines(project))
	defer stopMachines()
	runs, stopRuns := a.Hints.Subscribe(hints.Runs(project))
	defer stopRuns()
	tasks, stopTasks := a.Tasks.SubscribeProject(project)
	defer stopTasks()
	return a.hint(w, r, source{"machines", machines}, source{"runs", runs}, source{"tasks", tasks})
}

// workerEvents wakes a worker: "work" when a claim or a renewal may bring something, "desired" when a
// machine's desired state changed.
func (a *API) workerEvents(w http.ResponseWriter, r *http.Request) error {
	p := caller(r.Context())
	worker := r.URL.Query().Get("worker")
	var desired source
	if p.Kind == access.Machine {
		worker = p.Machine
		changed, stop := a.Hints.Subscribe(hints.Machine(p.Machine))
		defer stop()
		desired = source{"desired", changed}
	}
	work, stop := a.Tasks.SubscribeWorker(p.Project, worker)
	defer stop()
	return a.hint(w, r, source{"work", work}, desired)
}

// nothing is the data of a hint: the reader reads the truth again.
type nothing struct{}

// source is what a stream of hints speaks of: the name of its event, and the channel that says when.
type source struct {
	name    string
	changed <-chan struct{}
}

// hint streams an event of a source's name at each change, of three sources at most, until either side
// ends.
func (a *API) hint(w http.ResponseWriter, r *http.Request, sources ...source) error {
	s, err := openStream(w)
	if err != nil {
		return err
	}
	var of [3]source // one that is not given has no channel, and never comes
	copy(of[:], sources)
	for {
		select {
		case <-r.Context().Done():
			return nil
		case <-a.closing:
			return nil
		case <-of[0].changed:
			err = s.event("", of[0].name, nothing{})
		case <-of[1].changed:
			err = s.event("", of[1].name, nothing{})
		case <-of[2].changed:
			err = s.event("", of[2].name, nothing{})
		case <-a.info.Clock.After(heartbeat):
			err = s.comment("still here")
		}
		if err != nil {
			return nil // the reader is gone; it reads again when it comes back
		}
	}
}
