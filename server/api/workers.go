package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"interlock.sh/fleet"
	"interlock.sh/server/tasks"
	"interlock.sh/tasks"
)

// The routes of those who carry work out. What a worker may do follows from its credential: its
// project, and for a machine its worker id and its pools.

// maxReports is the body limit of a batch of completions, each of which may carry a result.
const maxReports = 16 << 20

type workerList struct {
	Workers []tasks.WorkerView `json:"workers"`
}

func (a *API) listWorkers(ctx context.Context, in *InProject) (*body[workerList], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	ws, err := a.Tasks.Workers(ctx, project)
	return answer(workerList{orEmpty(ws)}, err)
}

// worker is the authority of whoever asks.
func worker(ctx context.Context) servertasks.Caller {
	p := caller(ctx)
	return servertasks.Caller{Project: p.Project, Machine: p.Machine}
}

// registrar is the authority to register: a machine serves the deployments that it is meant to run, and
// nobody else serves any deployment.
func (a *API) registrar(ctx context.Context) (servertasks.Caller, error) {
	c := worker(ctx)
	if c.Machine == "" {
		c.MayServe = func(pool string) bool { return !strings.HasPrefix(pool, fleet.Pool("")) }
		return c, nil
	}
	d, err := a.Fleet.Desired(ctx, c.Machine)
	c.MayServe = func(pool string) bool {
		return slices.ContainsFunc(d.Deployments, func(d fleet.DesiredDeployment) bool { return fleet.Pool(d.ID) == pool })
	}
	return c, err
}

func (a *API) registerWorker(ctx context.Context, in *struct{ Body tasks.RegisterRequest }) (*body[tasks.RegisterResponse], error) {
	c, err := a.registrar(ctx)
	if err != nil {
		return nil, err
	}
	return answer(a.Tasks.Register(ctx, c, in.Body))
}

func (a *API) unregisterWorker(ctx context.Context, in *struct {
	Worker string `path:"worker"`
}) (*empty, error) {
	c := worker(ctx)
	if err := c.CheckWorker(in.Worker); err != nil {
		return nil, err
	}
	return &empty{}, a.Tasks.Unregister(ctx, c.Project, in.Worker)
}

// claimTasks parks until there is work or the time is up; it ends early, with nothing, when the control
// plane goes down.
func (a *API) claimTasks(w http.ResponseWriter, r *http.Request) error {
	var req tasks.ClaimRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	valid := r.Context()
	if req.WaitMs > 0 {
		var stop func()
		valid, stop = a.whileValid(valid)
		defer stop()
	}
	ctx, cancel := context.WithCancel(valid)
	defer cancel()
	go func() {
		select {
		case <-a.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	got, err := a.Tasks.Claim(ctx, worker(ctx), req)
	if err != nil && valid.Err() == nil && ctx.Err() != nil {
		got, err = tasks.ClaimResponse{Attempts: []tasks.Attempt{}}, nil
	}
	if err != nil {
		return orRevoked(valid, err)
	}
	writeJSON(w, http.StatusOK, got)
	return nil
}

func (a *API) renewTasks(ctx context.Context, in *struct{ Body tasks.RenewRequest }) (*body[tasks.RenewResponse], error) {
	return answer(a.Tasks.Renew(ctx, worker(ctx), in.Body))
}

func (a *API) taskProgress(ctx context.Context, in *struct{ Body tasks.ProgressReport }) (*empty, error) {
	return &empty{}, a.Tasks.Progress(ctx, worker(ctx), in.Body)
}

func (a *API) taskLog(ctx context.Context, in *struct{ Body tasks.LogReport }) (*empty, error) {
	return &empty{}, a.Tasks.Log(ctx, worker(ctx), in.Body)
}

// taskDelta is a plain handler, since no other call comes as often: some 40 a second for each machine that
// answers.
func (a *API) taskDelta(w http.ResponseWriter, r *http.Request) error {
	var req tasks.DeltaReport
	if err := readJSON(r, &req); err != nil {
		return err
	}
	got, err := a.Tasks.Delta(r.Context(), worker(r.Context()), req)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, got)
	return nil
}

func (a *API) completeTasks(ctx context.Context, in *struct{ Body tasks.CompleteRequest }) (*body[tasks.CompleteResponse], error) {
	return answer(a.Tasks.Complete(ctx, worker(ctx), in.Body))
}

func (a *API) failTask(ctx context.Context, in *struct{ Body tasks.FailReport }) (*body[tasks.Outcome], error) {
	return answer(a.Tasks.Fail(ctx, worker(ctx), in.Body))
}

func (a *API) unknownTask(ctx context.Context, in *struct{ Body tasks.UnknownReport }) (*body[tasks.Outcome], error) {
	return answer(a.Tasks.Unknown(ctx, worker(ctx), in.Body))
}
