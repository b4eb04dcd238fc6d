package serverai

import (
	"context"
	"slices"

	"interlock.sh/ai"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/server/tasks"
	"interlock.sh/tasks"
)

// place decides where a run goes: the deployment that its model names, when the policy allows it and an
// eligible machine serves it, or the run may wait for one. A refusal creates nothing and costs nothing.
func (s *Service) place(ctx context.Context, project string, sub Submission) (fleet.Deployment, ai.Policy, error) {
	model, policy := sub.Model, sub.Policy
	if policy != "" && !policy.Valid() {
		return fleet.Deployment{}, policy, fault.New(fault.Invalid, "routePolicy %q is none of %s, %s, %s", policy, ai.ManagedOnly, ai.SelfHostedOnly, ai.SelfHostedThenManaged).WithField("routePolicy")
	}
	d, found, err := s.fleet.Resolve(ctx, project, model)
	if err == nil && !found {
		d, found, err = s.hardware(ctx, project, model)
	}
	switch {
	case err != nil:
		return d, policy, err
	case found && policy == ai.ManagedOnly:
		return d, policy, fault.New(fault.Invalid, "routePolicy managed-only never uses customer hardware, and model %q is self-hosted", model).
			WithField("routePolicy").WithHint("use self-hosted-only, or name a managed model")
	case !found && (policy == ai.ManagedOnly || policy == ai.SelfHostedThenManaged):
		return d, policy, managedNotSet(model)
	case !found:
		return d, policy, fault.New(fault.NotFound, "project %s has no deployment %q", project, model).WithField("model").
			WithHint("use a deployment alias or group@channel: interlock models status shows them, GET /v1/models what is served now")
	case policy == "":
		policy = ai.SelfHostedOnly
	}
	eligible, err := s.eligible(ctx, project)
	if err != nil {
		return d, policy, err
	}
	n := eligible(d)
	if n == 0 && policy == ai.SelfHostedThenManaged {
		return d, policy, managedNotSet(model)
	}
	if n == 0 && sub.WaitForMs == 0 {
		list := "interlock models machine list"
		if _, ok := ai.HardwareAlias(d.ID); ok {
			list = "interlock hardware list"
		}
		return d, policy, fault.New(fault.NoEligibleWorker, "no healthy machine of project %s serves %s", project, d.Alias).
			WithField("model").With("deployment", d.Alias).
			WithHint("start or resume one: %s shows the state of each, or let the run wait for one (interlock ask --wait-for, waitForMs of /api/ai/runs); nothing was billed", list)
	}
	queued, err := servertasks.Queued(s.db.Reader(ctx), project, ai.ChatType, ai.ChatVersion, pool(d.ID))
	if err == nil && queued >= ai.MaxQueued {
		err = queueFull(d, queued)
	}
	return d, policy, err
}

// queueFull refuses a run of a deployment for which too many wait.
func queueFull(d fleet.Deployment, queued int) error {
	return fault.New(fault.QueueFull, "%d runs wait for %s; the limit is %d", queued, d.Alias, ai.MaxQueued).
		With("limit", ai.MaxQueued).With("retryAfterSeconds", 10).WithHint("try again in a while, or add a machine to the group")
}

func managedNotSet(model string) error {
	return fault.New(fault.ManagedNotSet, "model %q would need a managed provider, and none is configured on this control plane", model).
		WithField("model").WithHint("use a self-hosted model with routePolicy self-hosted-only; nothing was billed")
}

// eligible makes a function that counts the workers of a deployment that registered ai/chat@1 for it,
// were seen lately and are not draining, on machines that the control plane has not paused. A full one
// counts, and one that drains to be back as another version: the run queues.
func (s *Service) eligible(ctx context.Context, project string) (func(fleet.Deployment) int, error) {
	workers, err := s.tasks.Workers(ctx, project)
	if err != nil {
		return nil, err
	}
	machines, err := s.fleet.Machines(ctx, project)
	if err != nil {
		return nil, err
	}
	active := map[string]bool{}
	for _, m := range machines {
		active[m.ID] = m.Mode == fleet.Active && m.State.Kind != fleet.StateOffline && m.RevokedAt == nil
	}
	return func(d fleet.Deployment) int {
		n := 0
		for _, w := range workers {
			up := w.State == servertasks.WorkerReady || w.State == servertasks.WorkerFull || w.Returns
			if d.RetiredAt == nil && up && (active[w.Machine] && serves(w, d.ID) || onHardware(w, d.ID)) {
				n++
			}
		}
		return n
	}, nil
}

func serves(w tasks.WorkerView, deployment string) bool {
	return slices.Contains(w.Pools, pool(deployment)) && slices.ContainsFunc(w.Handlers, func(h tasks.Handler) bool {
		return h.Type == ai.ChatType && h.SchemaVersion == ai.ChatVersion
	})
}
