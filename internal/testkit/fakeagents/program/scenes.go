package main

import (
	"time"

	"interlock.sh/agent/localapi"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
	"interlock.sh/internal/testkit/fakeagents"
)

// role is an agent of a scene.
type role struct {
	*fakeagents.Agent
	ends bool // it is enrolled and does not run
}

// scenes are the states of a machine that are looked at.
var scenes = map[string]func() []role{
	"empty": func() []role { return nil },
	"one":   func() []role { return []role{bot(nil)} },
	"several": func() []role {
		return []role{bot(news("available", "0.5.0", "")), writer(), workshop()}
	},
	"paused": func() []role {
		return []role{bot(func(s *localapi.Status, _ *fleet.Heartbeat) { s.Wish.Mode = schedule.Paused })}
	},
	"custom":    func() []role { return []role{writer()} },
	"available": func() []role { return []role{bot(news("available", "0.5.0", ""))} },
	"reverted": func() []role {
		return []role{bot(news("reverted", "0.5.0", "support-bot (client) never answered"))}
	},
	"older":   func() []role { return []role{workshop()} },
	"trouble": func() []role { return []role{blocked(), stopped()} },
}

func bot(edit func(*localapi.Status, *fleet.Heartbeat)) role {
	a := fakeagents.Ready("support-bot", "smollm2-135m", 38.4)
	if edit != nil {
		a.Change(edit)
	}
	return role{Agent: a}
}

func news(state, version, why string) func(*localapi.Status, *fleet.Heartbeat) {
	return func(s *localapi.Status, _ *fleet.Heartbeat) {
		s.Update = &fleet.UpdateReport{State: state, Version: version, Why: why, At: time.Now()}
	}
}

// writer waits for hours that are three hours away, whenever it is looked at.
func writer() role {
	a := fakeagents.Ready("night-writer", "qwen3-8b", 21)
	a.Change(func(s *localapi.Status, _ *fleet.Heartbeat) {
		s.Wish.Mode, s.Wish.OnMains = schedule.Window, true
		from := time.Now().Add(3 * time.Hour)
		s.Wish.Windows = []schedule.Span{{Start: from.Format("15:04"), End: from.Add(8 * time.Hour).Format("15:04")}}
	})
	return role{Agent: a}
}

// workshop is from before the owner's hours.
func workshop() role {
	a := fakeagents.Ready("workshop", "phi-4", 12.5)
	a.Older = true
	a.Change(func(*localapi.Status, *fleet.Heartbeat) {})
	return role{Agent: a}
}

// blocked has a name that is long and not English.
func blocked() role {
	a := fakeagents.Ready("groessen", "übersetzer-8b", 0)
	a.Change(func(s *localapi.Status, hb *fleet.Heartbeat) {
		s.GroupName = "Größenänderungen fürs Büro in Köln-Mülheim & Straßburg"
		hb.Deployments[0].State = fleet.State{Kind: fleet.StateBlocked, Detail: "llama-server not found"}
	})
	return role{Agent: a}
}

func stopped() role {
	return role{Agent: fakeagents.Ready("shed", "smollm2-135m", 0), ends: true}
}
