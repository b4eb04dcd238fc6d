package serverai

import (
	"testing"
	"time"

	"interlock.sh/fleet"
)

func TestWhatARunWaitsFor(t *testing.T) {
	now := time.Date(2026, 3, 28, 11, 0, 0, 0, time.UTC) // Berlin's clocks go forward in the coming night
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := func(day, hour int) *time.Time {
		v := time.Date(2026, 3, day, hour, 0, 0, 0, berlin)
		return &v
	}
	closed := func(name string, next *time.Time, change ...func(*fleet.Machine)) fleet.Machine {
		m := fleet.Machine{
			Name: name, Group: "g", Role: fleet.RoleClient, Mode: fleet.Active, Host: fleet.HostFacts{Zone: "Europe/Berlin"},
			State: fleet.State{Kind: fleet.StatePaused, Detail: "by owner until later"}, Hours: &fleet.Hours{Mode: "night", Next: next},
		}
		for _, c := range change {
			c(&m)
		}
		return m
	}
	state := func(k fleet.StateKind, detail string) func(*fleet.Machine) {
		return func(m *fleet.Machine) { m.State, m.Hours = fleet.State{Kind: k, Detail: detail}, nil }
	}
	offline := func(m *fleet.Machine) { m.State = fleet.State{Kind: fleet.StateOffline} }
	byServer := func(m *fleet.Machine) { m.Mode = fleet.Paused }
	zone := func(z string) func(*fleet.Machine) { return func(m *fleet.Machine) { m.Host.Zone = z } }
	utc := time.Date(2026, 3, 28, 21, 0, 0, 0, time.UTC)
	gone := now

	for name, c := range map[string]struct {
		site     site
		machines []fleet.Machine
		want     string
		notBefor *time.Time
	}{
		"one machine's hours":             {site{}, []fleet.Machine{closed("garage-mac", at(28, 22))}, "about 22:00, garage-mac's hours", at(28, 22)},
		"in the machine's zone":           {site{}, []fleet.Machine{closed("garage-mac", &utc)}, "about 22:00, garage-mac's hours", &utc},
		"a zone that does not exist":      {site{}, []fleet.Machine{closed("garage-mac", at(28, 22), zone("Europe/Nowhere"))}, "about 22:00, garage-mac's hours", at(28, 22)},
		"no zone":                         {site{}, []fleet.Machine{closed("garage-mac", &utc, zone(""))}, "about 21:00, garage-mac's hours", &utc},
		"the earliest of several":         {site{}, []fleet.Machine{closed("a", at(28, 23)), closed("b", at(28, 22)), closed("c", at(29, 1))}, "about 22:00, b's hours", at(28, 22)},
		"two at once, by name":            {site{}, []fleet.Machine{closed("b", at(28, 22)), closed("a", at(28, 22))}, "about 22:00, a's hours", at(28, 22)},
		"after the night's clock change":  {site{}, []fleet.Machine{closed("garage-mac", at(29, 9))}, "about 09:00, garage-mac's hours", at(29, 9)},
		"on another day":                  {site{}, []fleet.Machine{closed("garage-mac", at(30, 9))}, "about Mon 09:00, garage-mac's hours", at(30, 9)},
		"in another week":                 {site{}, []fleet.Machine{closed("garage-mac", at(38, 9))}, "about 7 Apr 09:00, garage-mac's hours", at(38, 9)},
		"one that is there goes first":    {site{}, []fleet.Machine{closed("away", at(28, 20), offline), closed("here", at(28, 22))}, "about 22:00, here's hours", at(28, 22)},
		"only one that is offline":        {site{}, []fleet.Machine{closed("away", at(28, 20), offline)}, "about 20:00, away's hours (it is offline now)", at(28, 20)},
		"hours of which nobody heard end": {site{}, []fleet.Machine{closed("away", at(28, 10), offline)}, "away is offline", nil},
		"paused without an end":           {site{}, []fleet.Machine{closed("garage-mac", nil, func(m *fleet.Machine) { m.State.Detail = fleet.PausedByOwner })}, "garage-mac is paused (by owner)", nil},
		"the server's pause beside hours": {site{}, []fleet.Machine{closed("garage-mac", at(28, 22), byServer)}, "garage-mac is paused (by server)", nil},
		"the nearest to serving first": {site{}, []fleet.Machine{
			closed("off", nil, offline), closed("slow", nil, state(fleet.StateDownloading, "")), closed("full", nil, state(fleet.StateBlocked, "disk")), closed("x", nil, offline), closed("y", nil, offline),
		}, "slow is downloading, full is blocked: disk, off is offline, 2 more", nil},
		"others' machines do not count": {site{}, []fleet.Machine{
			closed("elsewhere", at(28, 12), func(m *fleet.Machine) { m.Group = "h" }), closed("trainer", at(28, 12), func(m *fleet.Machine) { m.Role = fleet.RoleTrainer }),
			closed("revoked", at(28, 12), func(m *fleet.Machine) { m.RevokedAt = &gone }),
		}, "no machine of group Garage is enrolled", nil},
		"none":    {site{}, nil, "no machine of group Garage is enrolled", nil},
		"retired": {site{retired: &gone}, []fleet.Machine{closed("garage-mac", at(28, 22))}, "deployment tiny was retired", nil},
		"ready":   {site{ready: true}, []fleet.Machine{closed("garage-mac", at(28, 22))}, "a free slot", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c.site.group, c.site.groupName = "g", "Garage"
			got, next := c.site.reason("tiny", c.machines, now)
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if (next == nil) != (c.notBefor == nil) || next != nil && !next.Equal(*c.notBefor) {
				t.Errorf("not before %v, want %v", next, c.notBefor)
			}
		})
	}
}
