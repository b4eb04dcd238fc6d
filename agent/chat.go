package agent

import (
	"context"

	"interlock.sh/agent/inference"
	"interlock.sh/ai"
	"interlock.sh/fault"
	"interlock.sh/worker"
)

// chat answers one ai/chat@1 attempt with the model server of its deployment and streams the answer.
func (a *Agent) chat(ctx context.Context, t *worker.Task) (any, error) {
	defer a.awake.Hold()()
	var in ai.ChatInput
	if err := t.Decode(&in); err != nil {
		return nil, err
	}
	s := a.serving(in.DeploymentID)
	if s == nil {
		return nil, worker.Retryable(fault.New(fault.Unavailable, "deployment %s is not served here any more", in.Alias))
	}
	request, err := inference.Request(ctx, a.control, in.Request)
	if err != nil {
		return nil, err
	}
	model, lease, err := s.lease()
	if err != nil {
		return nil, worker.Retryable(err)
	}
	res, err := inference.Chat(ctx, a.clock, model, request, t)
	lease.Done(err == nil)
	if err != nil {
		report, doubt := inference.Failure(ctx, err)
		if doubt {
			s.doubt(err.Error())
		}
		return nil, report
	}
	s.spoke(res.TokensPerSecond)
	return res, nil
}
