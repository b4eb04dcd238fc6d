package client

import (
	"context"
	"net/http"
	"net/url"

	"interlock.sh/fleet"
)

// Groups lists the project's model groups.
func (c *Client) Groups(ctx context.Context) ([]fleet.Group, error) {
	var out struct {
		Groups []fleet.Group `json:"groups"`
	}
	return out.Groups, c.Do(ctx, http.MethodGet, "/api/models/groups", nil, &out)
}

// RegisterGroup makes a model group with its two bootstrap keys.
func (c *Client) RegisterGroup(ctx context.Context, req fleet.NewGroupRequest) (fleet.NewGroup, error) {
	var out fleet.NewGroup
	return out, c.Do(ctx, http.MethodPost, "/api/models/groups", req, &out)
}

// GroupStatus is everything of a group at a glance. group is a name or an id, here and below.
func (c *Client) GroupStatus(ctx context.Context, group string) (fleet.Status, error) {
	var out fleet.Status
	return out, c.Do(ctx, http.MethodGet, groupPath(group, ""), nil, &out)
}

// RotateGroupKey replaces a bootstrap key. Machines that enrolled before go on.
func (c *Client) RotateGroupKey(ctx context.Context, group string, role fleet.Role) (fleet.BootstrapKey, error) {
	var out fleet.BootstrapKey
	return out, c.Do(ctx, http.MethodPost, groupPath(group, "/keys/"+url.PathEscape(string(role))+"/rotate"), nil, &out)
}

// GroupKeys lists a group's bootstrap keys, replaced ones included.
func (c *Client) GroupKeys(ctx context.Context, group string) ([]fleet.BootstrapKeyView, error) {
	var out struct {
		Keys []fleet.BootstrapKeyView `json:"keys"`
	}
	return out.Keys, c.Do(ctx, http.MethodGet, groupPath(group, "/keys"), nil, &out)
}

// CreateRelease makes an immutable release from blobs already uploaded.
func (c *Client) CreateRelease(ctx context.Context, group string, req fleet.NewReleaseRequest) (fleet.Release, error) {
	var out fleet.Release
	return out, c.Do(ctx, http.MethodPost, groupPath(group, "/releases"), req, &out)
}

// Deploy gives a release an alias and assigns it to the group's client machines.
func (c *Client) Deploy(ctx context.Context, group string, req fleet.NewDeploymentRequest) (fleet.Deployment, error) {
	var out fleet.Deployment
	return out, c.Do(ctx, http.MethodPost, groupPath(group, "/deployments"), req, &out)
}

// RetireDeployment takes a deployment off the machines. Its alias keeps naming those weights.
func (c *Client) RetireDeployment(ctx context.Context, group, alias string) (fleet.Deployment, error) {
	var out fleet.Deployment
	return out, c.Do(ctx, http.MethodDelete, groupPath(group, "/deployments/"+url.PathEscape(alias)), nil, &out)
}

// SetChannel points a channel at a deployment.
func (c *Client) SetChannel(ctx context.Context, group, channel string, req fleet.SetChannelRequest) (fleet.Channel, error) {
	var out fleet.Channel
	return out, c.Do(ctx, http.MethodPut, groupPath(group, "/channels/"+url.PathEscape(channel)), req, &out)
}

// RemoveChannel removes a channel and returns what it pointed at. Requests that name it are refused then.
func (c *Client) RemoveChannel(ctx context.Context, group, channel string) (fleet.Channel, error) {
	var out fleet.Channel
	return out, c.Do(ctx, http.MethodDelete, groupPath(group, "/channels/"+url.PathEscape(channel)), nil, &out)
}

// Machines lists the project's machines, revoked ones left out.
func (c *Client) Machines(ctx context.Context) ([]fleet.Machine, error) {
	var out struct {
		Machines []fleet.Machine `json:"machines"`
	}
	return out.Machines, c.Do(ctx, http.MethodGet, "/api/machines", nil, &out)
}

// Machine is one machine with its recent telemetry. id is an id or a name that only one machine has.
func (c *Client) Machine(ctx context.Context, id string) (fleet.MachineDetail, error) {
	var out fleet.MachineDetail
	return out, c.Do(ctx, http.MethodGet, machinePath(id, ""), nil, &out)
}

// MachineAction is a verb on one machine.
type MachineAction string

// The verbs.
const (
	MachinePause  MachineAction = "pause"
	MachineResume MachineAction = "resume"
	MachineDrain  MachineAction = "drain"
	MachineRevoke MachineAction = "revoke"
)

// ActOnMachine pauses, resumes, drains or revokes one machine.
func (c *Client) ActOnMachine(ctx context.Context, id string, action MachineAction) (fleet.Machine, error) {
	var out fleet.Machine
	return out, c.Do(ctx, http.MethodPost, machinePath(id, "/"+string(action)), nil, &out)
}

// Enroll trades this client's bootstrap key for a machine credential.
func (c *Client) Enroll(ctx context.Context, req fleet.EnrollRequest) (fleet.EnrollResponse, error) {
	var out fleet.EnrollResponse
	return out, c.Do(ctx, http.MethodPost, "/api/machine/enroll", req, &out)
}

// Self is what the control plane derives from this client's machine credential.
func (c *Client) Self(ctx context.Context) (fleet.Identity, error) {
	var out fleet.Identity
	return out, c.Do(ctx, http.MethodGet, "/api/machine/self", nil, &out)
}

// DesiredState is the desired state of the machine whose credential this client has.
func (c *Client) DesiredState(ctx context.Context) (fleet.Desired, error) {
	var out fleet.Desired
	return out, c.Do(ctx, http.MethodGet, "/api/machine/desired", nil, &out)
}

// Heartbeat reports the machine's state.
func (c *Client) Heartbeat(ctx context.Context, hb fleet.Heartbeat) (fleet.HeartbeatResponse, error) {
	var out fleet.HeartbeatResponse
	return out, c.Do(ctx, http.MethodPost, "/api/machine/heartbeat", hb, &out)
}

func groupPath(group, rest string) string {
	return "/api/models/groups/" + url.PathEscape(group) + rest
}

func machinePath(id, rest string) string { return "/api/machines/" + url.PathEscape(id) + rest }
