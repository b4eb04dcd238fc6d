package api_test

import (
	"testing"

	"interlock.sh/fault"
	"interlock.sh/fleet"
)

// An argument that every agent would refuse is refused before a machine downloads anything for it.
func TestArgumentsThatNoAgentTakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	group := "/api/models/groups/" + w.group.ID
	release := fleet.NewReleaseRequest{Name: "r", Runtime: fleet.LlamaCpp, License: "x", Files: []fleet.File{w.mineFile()}, Args: []string{"--host=0.0.0.0"}}
	w.refused("release", w.call("POST", group+"/releases?project=mine", w.creds["account"], release), fault.Invalid, "args")
	for name, alias := range map[string]string{"a new deployment": "new", "one that is there": "tiny"} {
		w.refused(name, w.call("POST", group+"/deployments?project=mine", w.creds["account"], fleet.NewDeploymentRequest{
			Release: w.deployment.Release, Alias: alias, Settings: fleet.SettingsChange{Args: []string{"--port", "99"}},
		}), fault.Invalid, "settings.args")
	}
	got := w.call("POST", group+"/deployments?project=mine", w.creds["account"], fleet.NewDeploymentRequest{
		Release: w.deployment.Release, Alias: "new", Settings: fleet.SettingsChange{Args: []string{"--cache-type-k", "q8_0"}},
	})
	if got.status != 200 {
		t.Errorf("an argument of its own: %d %s", got.status, got.body)
	}
}
