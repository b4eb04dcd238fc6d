package agent

import (
	"interlock.sh/ai"
)

// ask submits a run and gives it back when it has ended.
func (r *rig) ask(model string) <-chan ai.Run {
	r.Helper()
	run, err := r.plane.Owner.SubmitRun(r.Context(), ai.RunRequest{Model: model, Prompt: "hello"})
	if err != nil {
		r.Fatal("submit:", err)
	}
	ended := make(chan ai.Run, 1)
	go func() {
		got, err := r.plane.Owner.FollowRun(r.Context(), run.ID, func(string, ai.StreamEvent) error { return nil })
		if err != nil {
			r.Error("follow:", err)
		}
		ended <- got
	}()
	return ended
}
