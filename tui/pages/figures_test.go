package pages

import (
	"testing"

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
