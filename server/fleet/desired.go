package serverfleet

import (
	"encoding/json"
	"errors"
	"time"

	"interlock.sh/fleet"
	"interlock.sh/server/store"
)

// desiredOf computes the desired state of a machine. The version is read first: when a change comes in
// between, the machine sees a newer version at its next heartbeat and reads again.
func desiredOf(q store.Querier, now func() time.Time, id string) (fleet.Desired, error) {
	m, err := byID(q, now(), id)
	if err != nil {
		return fleet.Desired{}, err
	}
	out := fleet.Desired{
		Version: m.desiredVersion, Machine: m.ID, Group: m.Group, Role: m.Role, Mode: m.Mode,
		Deployments: []fleet.DesiredDeployment{},
	}
	if m.Role != fleet.RoleClient {
		return out, nil
	}
	rows, err := q.Query(`SELECT d.id, d.alias, d.settings, r.runtime, r.files, r.args, r.context_length, r.slots`+deploymentFrom+
		`WHERE d.model_group = $1 AND d.retired_at IS NULL ORDER BY d.created_at, d.id`, m.Group)
	ds, err := store.All(rows, err, scanDesired)
	if err == nil && ds != nil {
		out.Deployments = ds
	}
	return out, err
}

// scanDesired merges a release with the settings of its deployment: settings win where they are set,
// extra arguments follow the release's own.
func scanDesired(r store.Scanner) (fleet.DesiredDeployment, error) {
	var d fleet.DesiredDeployment
	var settings, files, args string
	if err := r.Scan(&d.ID, &d.Alias, &settings, &d.Runtime, &files, &args, &d.ContextLength, &d.Slots); err != nil {
		return d, err
	}
	var set fleet.Settings
	if err := errors.Join(json.Unmarshal([]byte(settings), &set), json.Unmarshal([]byte(files), &d.Files), json.Unmarshal([]byte(args), &d.Args)); err != nil {
		return d, err
	}
	if set.ContextLength > 0 {
		d.ContextLength = set.ContextLength
	}
	if set.Slots > 0 {
		d.Slots = set.Slots
	}
	d.Threads, d.GPULayers = set.Threads, set.GPULayers
	d.Args = append(d.Args, set.Args...)
	return d, nil
}

// MayRead reports whether a machine's desired state names a file.
func MayRead(d fleet.Desired, sha256 string) bool {
	for _, dep := range d.Deployments {
		for _, f := range dep.Files {
			if f.SHA256 == sha256 {
				return true
			}
		}
	}
	return false
}
