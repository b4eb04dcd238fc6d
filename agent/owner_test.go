package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlock.sh/fleet/schedule"
)

func TestWhatTheOwnerSaidIsReadInEveryForm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		mode       schedule.Mode
		held       bool // paused or draining by hand
		drains     bool
		problem    string
	}{
		{name: "no file", mode: schedule.Always},
		{name: "before there were hours", text: `{"mode":"active"}`, mode: schedule.Always},
		{name: "a pause from then", text: `{"mode":"paused"}`, mode: schedule.Always, held: true},
		{name: "a drain from then", text: `{"mode":"draining"}`, mode: schedule.Always, held: true, drains: true},
		{name: "hours", text: `{"schema":2,"mode":"night","onMains":true}`, mode: schedule.Night},
		{name: "hours and a hold", text: `{"schema":2,"mode":"night","hold":{"drain":true}}`, mode: schedule.Night, held: true, drains: true},
		{name: "no mode", text: `{"schema":2}`, mode: schedule.Always},
		{name: "torn", text: `{"schema":2,"mo`, mode: schedule.Paused, problem: "unexpected end of JSON input"},
		{name: "empty", text: ``, mode: schedule.Paused, problem: "unexpected end of JSON input"},
		{name: "another type", text: `{"schema":2,"mode":7}`, mode: schedule.Paused, problem: "cannot unmarshal"},
		{name: "an unknown mode", text: `{"mode":"asleep"}`, mode: schedule.Paused, problem: `mode "asleep" is unknown`},
		{name: "an unknown mode of hours", text: `{"schema":2,"mode":"asleep"}`, mode: schedule.Paused, problem: `mode "asleep" is none of`},
		{name: "windows that overlap", text: `{"schema":2,"mode":"window","windows":[{"start":"20:00","end":"22:00"},{"start":"21:00","end":"23:00"}]}`, mode: schedule.Paused, problem: "overlap from Sun 21:00"},
		{name: "a newer version", text: `{"schema":3,"mode":"always"}`, mode: schedule.Paused, problem: "schema 3 is of another version"},
		{name: "a folder", text: "/", mode: schedule.Paused, problem: "is a directory"},
	} {
		dir := t.TempDir()
		var err error
		switch c.text {
		case "/":
			err = os.Mkdir(filepath.Join(dir, "owner.json"), 0o700)
		default:
			if c.name != "no file" {
				err = os.WriteFile(ownerPath(dir), []byte(c.text), 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		w, problem := loadWish(dir)
		if w.Mode != c.mode || (w.Hold != nil) != c.held || c.held && w.Hold.Drain != c.drains || !strings.Contains(problem, c.problem) || (problem == "") != (c.problem == "") {
			t.Errorf("%s: %+v, %q", c.name, w, problem)
		}
	}
}
