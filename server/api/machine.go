package api

import (
	"context"

	"interlock.sh/fleet"
)

// The routes of one machine about itself: which one it is comes from the credential alone.

func (a *API) enroll(ctx context.Context, in *struct{ Body fleet.EnrollRequest }) (*body[fleet.EnrollResponse], error) {
	return answer(a.Fleet.Enroll(ctx, caller(ctx), in.Body))
}

func (a *API) self(ctx context.Context, _ *empty) (*body[fleet.Identity], error) {
	return answer(a.Fleet.Self(ctx, caller(ctx).Machine))
}

func (a *API) desired(ctx context.Context, _ *empty) (*body[fleet.Desired], error) {
	return answer(a.Fleet.Desired(ctx, caller(ctx).Machine))
}

func (a *API) heartbeat(ctx context.Context, in *struct{ Body fleet.Heartbeat }) (*body[fleet.HeartbeatResponse], error) {
	return answer(a.Fleet.Heartbeat(ctx, caller(ctx).Machine, in.Body))
}
