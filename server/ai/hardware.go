package serverai

import (
	"context"
	"slices"

	"interlock.sh/ai"
	"interlock.sh/fleet"
	"interlock.sh/server/tasks"
	"interlock.sh/tasks"
)

// A project's own hardware serves models without a fleet: a task worker that registered ai/chat@1 in the
// pool of an alias. Placement treats it as a deployment of that alias, which it is not: no release, no
// group and no machine stand behind it.

// hardware is what a model name means when no deployment has it: an alias of the project's own
// hardware. It is known when a worker registered it, whatever became of that worker, when runs of the
// project went there before, or when it names a profile; so a model that is merely away is refused as
// such, and not as one that nobody ever heard of.
func (s *Service) hardware(ctx context.Context, project, model string) (fleet.Deployment, bool, error) {
	pool := ai.HardwarePool(model)
	if tasks.CheckLabel("model", pool, true) != nil {
		return fleet.Deployment{}, false, nil
	}
	d := fleet.Deployment{ID: pool, Alias: model, Route: ai.Route(model)}
	if _, ok := ai.ProfileOf(model); ok {
		return d, true, nil
	}
	workers, err := s.tasks.Workers(ctx, project)
	if err != nil {
		return d, false, err
	}
	if slices.ContainsFunc(workers, func(w tasks.WorkerView) bool { return onHardware(w, d.ID) }) {
		return d, true, nil
	}
	var before int
	err = s.db.QueryRow(ctx, "SELECT COUNT(*) FROM (SELECT 1 FROM runs WHERE project = $1 AND deployment = $2 LIMIT 1) r", project, pool).Scan(&before)
	return d, before > 0, err
}

// onHardware reports whether a worker is one of the project's own hardware that serves the pool: no
// enrolled machine, whose pools are those of its deployments.
func onHardware(w tasks.WorkerView, pool string) bool {
	_, hardware := ai.HardwareAlias(pool)
	return hardware && w.Machine == "" && serves(w, pool)
}

// pool is where the tasks of a deployment, or of the hardware that stands for one, wait.
func pool(deployment string) string {
	if _, ok := ai.HardwareAlias(deployment); ok {
		return deployment
	}
	return fleet.Pool(deployment)
}

// servedByHardware lists the models that the project's own hardware serves now.
func servedByHardware(workers []tasks.WorkerView) []Model {
	var out []Model
	for _, w := range workers {
		if w.State != servertasks.WorkerReady && w.State != servertasks.WorkerFull {
			continue
		}
		for _, p := range w.Pools {
			alias, _ := ai.HardwareAlias(p)
			if onHardware(w, p) && !slices.ContainsFunc(out, func(m Model) bool { return m.Name == alias }) {
				out = append(out, Model{Name: alias, Group: "your-hardware"})
			}
		}
	}
	return out
}

// MayReadOnHardware reports whether these bytes are the request of a run that a worker of the project's
// own hardware holds.
func (s *Service) MayReadOnHardware(ctx context.Context, project, sha256 string) (bool, error) {
	var n int
	err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM runs r JOIN tasks t ON t.id = r.task
		JOIN workers w ON w.project = t.project AND w.worker_id = t.worker_id AND w.machine = ''
		WHERE r.request_sha256 = $1 AND r.project = $2 AND r.deployment LIKE 'model:%' AND t.state IN ('leased', 'running')`, sha256, project).Scan(&n)
	return n > 0, err
}
