package ai

import "time"

// MaxWait is the longest wait for a machine that a run may ask for.
const MaxWait = 24 * time.Hour

// Waiting is what a queued run waits for, as the fleet stood when the run was read.
type Waiting struct {
	Reason    string     `json:"reason" doc:"in words, as in: about 22:00, garage-mac's hours"`
	NotBefore *time.Time `json:"notBefore,omitempty" doc:"when the hours of a machine begin; absent when no clock tells when it may start"`
	Until     *time.Time `json:"until,omitempty" doc:"then it ends with NO_ELIGIBLE_INFERENCE_WORKER unless a machine came"`
}
