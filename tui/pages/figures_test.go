package pages

import (
	"testing"
	"time"

	"interlock.sh/fleet"
)

func TestAModelThatDoesNotAnswerIsNotListedLikeOneThatDoes(t *testing.T) {
	model := func(alias string, kind fleet.StateKind) fleet.DeploymentReport {
		return fleet.DeploymentReport{Alias: alias, State: fleet.State{Kind: kind, Detail: "detail"}}
	}
	tiny, full, big := model("tiny", fleet.StateReady), model("full", fleet.StateFull), model("big", fleet.StateBlocked)
	coming := model("new", fleet.StateDownloading)
	unknown := coming
	coming.Downloaded, coming.Total = 41, 100
	for _, c := range []struct {
		models        []fleet.DeploymentReport
		column, words string
	}{
		{nil, "—", "no model assigned"},
		{[]fleet.DeploymentReport{tiny}, "tiny", "tiny"},
		{[]fleet.DeploymentReport{tiny, full}, "tiny +1", "tiny, full"},
		{[]fleet.DeploymentReport{big, tiny}, "tiny (1 not ready)", "big (blocked), tiny"},
		{[]fleet.DeploymentReport{big, tiny, full, coming}, "tiny +1 (2 not ready)", "big (blocked), tiny, full, new (downloading 41%)"},
		{[]fleet.DeploymentReport{big, unknown}, "big +1", "big (blocked), new (downloading)"},
	} {
		m := fleet.Machine{Deployments: c.models}
		if got := models(m); got != c.column {
			t.Errorf("in the column %q, want %q", got, c.column)
		}
		if got := modelWords(m); got != c.words {
			t.Errorf("in full %q, want %q", got, c.words)
		}
	}
}

func TestHoursInWords(t *testing.T) {
	now := time.Date(2026, 6, 10, 12, 0, 0, 0, time.UTC)
	berlin := time.FixedZone("CEST", 2*3600) // the machine's clock, not the reader's
	at := func(h int) *time.Time { v := time.Date(2026, 6, 10, h, 0, 0, 0, berlin); return &v }
	for want, h := range map[string]*fleet.Hours{
		"—":                        nil,
		"always":                   {Mode: "always", Open: true},
		"night until 23:00":        {Mode: "night", Open: true, Next: at(23)},
		"night, starts 22:00":      {Mode: "night", Why: "until 22:00", Next: at(22)},
		"window, starts Sun 02:00": {Mode: "window", Why: "until Sun 02:00", Next: new(at(26).Add(3 * 24 * time.Hour))},
		"always, on battery":       {Mode: "always", Why: "on battery"},
		"always, paused":           {Mode: "always"},
		"paused":                   {Mode: "paused"},
	} {
		if got := hoursWords(h, now); got != want {
			t.Errorf("%+v: %q, want %q", h, got, want)
		}
	}
}
