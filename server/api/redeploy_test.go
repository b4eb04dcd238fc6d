package api_test

import (
	"slices"
	"testing"

	"interlock.sh/fleet"
)

// Deploying an alias again changes what is given and nothing else; the same request again restarts nothing.
func TestRedeploying(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	version := func() int64 {
		t.Helper()
		d, err := w.machine.DesiredState(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return d.Version
	}
	last := version()
	for _, c := range []struct {
		name    string
		route   string
		change  fleet.SettingsChange
		changes []string
		bumps   bool
	}{
		{"as it is", "", fleet.SettingsChange{}, nil, false},
		{"threads", "", fleet.SettingsChange{Threads: new(2)}, []string{"threads default → 2"}, true},
		{"the same again", "", fleet.SettingsChange{Threads: new(2)}, nil, false},
		{"slots, which keeps the threads", "", fleet.SettingsChange{Slots: new(3), Args: []string{"--mlock"}}, []string{"slots default → 3", "args none → --mlock"}, true},
		{"nothing given keeps all", "", fleet.SettingsChange{}, nil, false},
		{"a route, which is no business of a machine", "custom", fleet.SettingsChange{}, nil, false},
		{"no layer on the GPU", "", fleet.SettingsChange{GPULayers: new(0)}, []string{"gpu-layers default → 0"}, true},
		{"back to the defaults", "", fleet.SettingsChange{Threads: new(0), Slots: new(0), GPULayers: new(-1), Args: []string{}},
			[]string{"slots 3 → default", "threads 2 → default", "gpu-layers 0 → default", "args --mlock → none"}, true},
	} {
		d, err := w.mine.Deploy(ctx, w.group.ID, fleet.NewDeploymentRequest{Release: "of-tiny", Alias: "tiny", Route: c.route, Settings: c.change})
		if err != nil {
			t.Fatal(c.name, err)
		}
		var got []string
		if d.Before != nil {
			got = d.Before.Changes(d.Settings)
		}
		now := version()
		if !slices.Equal(got, c.changes) || (now > last) != c.bumps {
			t.Errorf("%s: changed %q, version %d after %d", c.name, got, now, last)
		}
		last = now
		if c.name == "back to the defaults" && d.Route != "custom" {
			t.Errorf("the route went back to %s", d.Route)
		}
	}
	st, err := w.mine.GroupStatus(ctx, w.group.ID)
	if err != nil || st.Deployments[0].Before != nil || len(st.Deployments[0].Settings.Changes(fleet.Settings{})) != 0 {
		t.Errorf("stored: %+v, %v", st.Deployments, err)
	}
	if _, err := w.mine.RetireDeployment(ctx, w.group.ID, "tiny"); err != nil {
		t.Fatal(err)
	}
	last = version()
	if d, err := w.mine.Deploy(ctx, w.group.ID, fleet.NewDeploymentRequest{Release: "of-tiny", Alias: "tiny"}); err != nil || d.RetiredAt != nil || version() <= last {
		t.Errorf("a retired one does not come back: %+v, %v", d, err)
	}
}
