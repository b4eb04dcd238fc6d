package service

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// With the last agent of an app folder its updater has nothing to do; the others keep theirs.
func TestTheUpdaterOfAnAppFolderWithoutAgentsIsLeftOver(t *testing.T) {
	const other = "app-0123abcd"
	foreign, theirs := Spec{Kind: ModelWorker, Group: "garage-7skjd2", Role: "trainer", App: other}, Spec{Kind: Updater, App: other}
	beside := Spec{Kind: ModelWorker, Group: "attic-aaaaaa", Role: "client", App: "app"}
	for name, manager := range map[string]manager{"systemd": systemd{facts: systemdFacts{version: 252}}, "launchd": launchd{}} {
		for _, c := range []struct {
			what string
			have []Spec
			gone Spec
			want []Spec
		}{
			{"the last of its folder", []Spec{client, looker, foreign, theirs}, foreign, []Spec{theirs}},
			{"the last of the common folder", []Spec{client, looker, foreign, theirs}, client, []Spec{looker}},
			{"one of two of a folder", []Spec{client, looker, beside}, client, nil},
			{"the very last", []Spec{foreign, theirs}, foreign, []Spec{theirs}},
			{"one that has no service", []Spec{client, looker}, foreign, nil},
			{"none is there", nil, client, nil},
		} {
			m := newMachine(t)
			m.manager = manager
			if name == "launchd" {
				m.run = func(_ context.Context, argv ...string) (string, error) {
					if argv[1] == "print" {
						return "", errors.New("Could not find service")
					}
					return "", nil
				}
			}
			if len(c.have) > 0 {
				m.apply(NewRequest(Install, testHome, c.have...))
			}
			if got, err := m.Leftover(testHome, c.gone); err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%s, %s: %+v, %v", name, c.what, got, err)
			}
		}
	}
	m := newMachine(t)
	m.apply(NewRequest(Install, testHome, client, looker, foreign, theirs))
	m.put(unitFile(client, "service"), marker+"\n[Service]\nUser=fleet\nExecStart=/usr/bin/interlock agent run\n")
	if got, err := m.Leftover(testHome, foreign); err != nil || len(got) > 0 {
		t.Errorf("beside an agent of which it cannot be told: %+v, %v", got, err)
	}
}
