package api

import (
	"context"

	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/installer"
)

// GroupIn names a model group.
type GroupIn struct {
	InProject
	Group string `path:"group" doc:"name or id"`
}

type groupList struct {
	Groups []fleet.Group `json:"groups"`
}

func (a *API) listGroups(ctx context.Context, in *InProject) (*body[groupList], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	gs, err := a.Fleet.Groups(ctx, project)
	return answer(groupList{orEmpty(gs)}, err)
}

func (a *API) registerGroup(ctx context.Context, in *struct {
	InProject
	Body fleet.NewGroupRequest
}) (*body[fleet.NewGroup], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	out, err := a.Fleet.Register(ctx, project, in.Body)
	for i := range out.Keys {
		out.Keys[i].Line = a.pastedLine(out.Group, out.Keys[i])
	}
	return answer(out, err)
}

// pastedLine is the whole install command of a fresh bootstrap key.
func (a *API) pastedLine(g fleet.Group, k fleet.BootstrapKey) string {
	return installer.PastedLine(installer.LineSpec{
		URL: a.info.PublicURL, Group: g.ID, Role: string(k.Role), Key: k.Key, Pin: a.info.Pin, InsecureHTTP: a.info.InsecureHTTP,
	})
}

func (a *API) groupStatus(ctx context.Context, in *GroupIn) (*body[fleet.Status], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	st, err := a.Fleet.Status(ctx, project, in.Group)
	st.Keys, st.Releases, st.Deployments, st.Channels = orEmpty(st.Keys), orEmpty(st.Releases), orEmpty(st.Deployments), orEmpty(st.Channels)
	return answer(st, err)
}

func (a *API) rotateGroupKey(ctx context.Context, in *struct {
	GroupIn
	Role fleet.Role `path:"role" doc:"client or trainer"`
}) (*body[fleet.BootstrapKey], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	g, key, err := a.Fleet.RotateKey(ctx, project, in.Group, in.Role)
	key.Line = a.pastedLine(g, key)
	return answer(key, err)
}

type groupKeyList struct {
	Keys []fleet.BootstrapKeyView `json:"keys"`
}

func (a *API) listGroupKeys(ctx context.Context, in *GroupIn) (*body[groupKeyList], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	ks, err := a.Fleet.Keys(ctx, project, in.Group)
	return answer(groupKeyList{orEmpty(ks)}, err)
}

func (a *API) createRelease(ctx context.Context, in *struct {
	GroupIn
	Body fleet.NewReleaseRequest
}) (*body[fleet.Release], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return answer(a.Fleet.CreateRelease(ctx, project, in.Group, in.Body))
}

func (a *API) deploy(ctx context.Context, in *struct {
	GroupIn
	Body fleet.NewDeploymentRequest
}) (*body[fleet.Deployment], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return answer(a.Fleet.Deploy(ctx, project, in.Group, in.Body))
}

func (a *API) retireDeployment(ctx context.Context, in *struct {
	GroupIn
	Alias string `path:"alias"`
}) (*body[fleet.Deployment], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return answer(a.Fleet.Retire(ctx, project, in.Group, in.Alias))
}

func (a *API) setChannel(ctx context.Context, in *struct {
	GroupIn
	Channel string `path:"channel"`
	Body    fleet.SetChannelRequest
}) (*body[fleet.Channel], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return answer(a.Fleet.SetChannel(ctx, project, in.Group, in.Channel, in.Body))
}

func (a *API) removeChannel(ctx context.Context, in *struct {
	GroupIn
	Channel string `path:"channel"`
}) (*body[fleet.Channel], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return answer(a.Fleet.RemoveChannel(ctx, project, in.Group, in.Channel))
}

// MachineIn names a machine.
type MachineIn struct {
	InProject
	Machine string `path:"machine" doc:"id, or a name that only one machine has"`
}

type machineList struct {
	Machines []fleet.Machine `json:"machines"`
}

func (a *API) listMachines(ctx context.Context, in *InProject) (*body[machineList], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	ms, err := a.Fleet.Machines(ctx, project)
	return answer(machineList{orEmpty(ms)}, err)
}

func (a *API) getMachine(ctx context.Context, in *MachineIn) (*body[fleet.MachineDetail], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return answer(a.Fleet.Machine(ctx, project, in.Machine))
}

func (a *API) actOnMachine(ctx context.Context, in *struct {
	MachineIn
	Action string `path:"action" doc:"pause, resume, drain or revoke"`
}) (*body[fleet.Machine], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	switch in.Action {
	case "pause":
		return answer(a.Fleet.SetMode(ctx, project, in.Machine, fleet.Paused))
	case "drain":
		return answer(a.Fleet.SetMode(ctx, project, in.Machine, fleet.Draining))
	case "resume":
		return answer(a.Fleet.SetMode(ctx, project, in.Machine, fleet.Active))
	case "revoke":
		m, err := a.Fleet.Revoke(ctx, project, in.Machine)
		if err != nil {
			return nil, err
		}
		// A claim that the machine has parked must not be given work any more.
		return answer(m, a.Tasks.Unregister(ctx, project, m.ID))
	}
	return nil, fault.New(fault.NotFound, "a machine has no action %q", in.Action).WithHint("pause, resume, drain or revoke")
}
