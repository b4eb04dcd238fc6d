package serverai

import (
	"context"
	"slices"

	"interlock.sh/ai"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/tasks"
)

// place decides where a run goes: the deployment that its model names, when the policy allows it and an
// eligible machine serves it. A refusal creates nothing and costs nothing.
func (s *Service) place(ctx context.Context, project, model string, policy ai.Policy) (fleet.Deployment, ai.Policy, error) {
	if policy != "" && !policy.Valid() {
		return fleet.Deployment{}, policy, fault.New(fault.Invalid, "routePolicy %q is none of %s, %s, %s", policy, ai.ManagedOnly, ai.SelfHostedOnly, ai.SelfHostedThenManaged).WithField("routePolicy")
	}
	d, found, err := s.fleet.Resolve(ctx, project, model)
	switch {
	case err != nil:
		return d, policy, err
	case found && policy == ai.ManagedOnly:
		return d, policy, fault.New(fault.Invalid, "routePolicy managed-only never uses customer hardware, and model %q is self-hosted", model).
			WithField("routePolicy").WithHint("use self-hosted-only, or name a managed model")
	case !found && policy == ai.ManagedOnly:
		return d, policy, managedNotSet(model)
	case !found:
		return d, policy, fault.New(fault.NotFound, "project %s has no deployment %q", project, model).WithField("model").
			WithHint("use a deployment alias or group@channel; what is served now: GET /v1/models")
	case policy == "":
		policy = ai.SelfHostedOnly
	}
	n, err := s.eligible(ctx, project, d)
	if err != nil {
		return d, policy, err
	}
	if n == 0 && policy == ai.SelfHostedThenManaged {
		return d, policy, managedNotSet(model)
	}
	if n == 0 {
		return d, policy, fault.New(fault.NoEligibleWorker, "no healthy machine of project %s serves %s", project, d.Alias).
			WithField("model").With("deployment", d.Alias).
			WithHint("start or resume one: interlock models machine list shows the state of each; nothing was billed")
	}
	return d, policy, nil
}

func managedNotSet(model string) error {
	return fault.New(fault.ManagedNotSet, "model %q would need a managed provider, and none is configured on this control plane", model).
		WithField("model").WithHint("use a self-hosted model with routePolicy self-hosted-only; nothing was billed")
}

// eligible counts the workers that registered ai/chat@1 for the deployment, were seen lately and are
// not draining, on machines that the control plane has not paused. A full one counts: the run queues.
func (s *Service) eligible(ctx context.Context, project string, d fleet.Deployment) (int, error) {
	if d.RetiredAt != nil {
		return 0, nil
	}
	workers, err := s.tasks.Workers(ctx, project)
	if err != nil {
		return 0, err
	}
	machines, err := s.fleet.Machines(ctx, project)
	if err != nil {
		return 0, err
	}
	active := map[string]bool{}
	for _, m := range machines {
		active[m.ID] = m.Mode == fleet.Active && m.State.Kind != fleet.StateOffline && m.RevokedAt == nil
	}
	n := 0
	for _, w := range workers {
		if (w.State == "ready" || w.State == "full") && active[w.Machine] && serves(w, d.ID) {
			n++
		}
	}
	return n, nil
}

func serves(w tasks.WorkerView, deployment string) bool {
	return slices.Contains(w.Pools, fleet.Pool(deployment)) && slices.ContainsFunc(w.Handlers, func(h tasks.Handler) bool {
		return h.Type == ai.ChatType && h.SchemaVersion == ai.ChatVersion
	})
}
