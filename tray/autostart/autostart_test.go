package autostart_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"howett.net/plist"

	"interlock.sh/fault"
	"interlock.sh/tray/autostart"
)

func TestTheFileIsWrittenAndRemoved(t *testing.T) {
	home := t.TempDir()
	for want, d := range map[string]autostart.Desktop{
		"Library/LaunchAgents/sh.interlock.nightshift.plist":  {OS: "darwin", UserHome: home},
		".config/autostart/sh.interlock.nightshift.desktop":   {OS: "linux", UserHome: home, ConfigDir: "relative/is/ignored"},
		"elsewhere/autostart/sh.interlock.nightshift.desktop": {OS: "linux", UserHome: home, ConfigDir: filepath.Join(home, "elsewhere")},
	} {
		path := filepath.Join(home, want)
		for range 2 { // again is harmless
			if err := d.Install("/opt/nightshift", ""); err != nil || d.Path() != path {
				t.Fatalf("%s: %v", d.Path(), err)
			}
		}
		st, err := os.Stat(path)
		if err != nil || st.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v %v", want, st, err)
		}
		for range 2 {
			if err := d.Remove(); err != nil {
				t.Error(err)
			}
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", want, err)
		}
	}
}

func read(t *testing.T, d autostart.Desktop) string {
	t.Helper()
	b, err := os.ReadFile(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPathsWithSpecialCharactersMeanThemselves(t *testing.T) {
	d := autostart.Desktop{OS: "linux", UserHome: t.TempDir()}
	for program, exec := range map[string]string{
		"/opt/nightshift": `Exec="/opt/nightshift"`,
		"/my apps/night":  `Exec="/my apps/night"`,
		`/a"b`:            `Exec="/a\\"b"`,
		"/a$HOME`x`":      "Exec=\"/a\\\\$HOME\\\\`x\\\\`\"",
		`/back\slash`:     `Exec="/back\\\\slash"`,
		"/100%f":          `Exec="/100%%f"`,
	} {
		if err := d.Install(program, ""); err != nil {
			t.Fatal(err)
		}
		if got := read(t, d); !strings.Contains(got, exec+"\n") {
			t.Errorf("%s: %s", program, got)
		}
	}
	if err := d.Install("/opt/nightshift", "/data/night shift"); err != nil || !strings.Contains(read(t, d), `Exec=env "NIGHTSHIFT_HOME=/data/night shift" "/opt/nightshift"`) {
		t.Errorf("with a home: %v\n%s", err, read(t, d))
	}
	for _, bad := range []string{"nightshift", "", "/a\nExec=rm", "/a\x00b"} {
		if err := d.Install(bad, ""); !errors.Is(err, fault.Invalid) || fault.Of(err).Hint == "" {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestTheLaunchAgentIsAPropertyList(t *testing.T) {
	d := autostart.Desktop{OS: "darwin", UserHome: t.TempDir()}
	if err := d.Install("/Applications/Night & <Shift>.app/Contents/MacOS/nightshift", "/data/ä&b"); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Label                  string
		ProgramArguments       []string
		RunAtLoad              bool
		EnvironmentVariables   map[string]string
		LimitLoadToSessionType string
	}
	if _, err := plist.Unmarshal([]byte(read(t, d)), &got); err != nil {
		t.Fatal(err)
	}
	if got.Label != "sh.interlock.nightshift" || len(got.ProgramArguments) != 1 || got.ProgramArguments[0] != "/Applications/Night & <Shift>.app/Contents/MacOS/nightshift" ||
		!got.RunAtLoad || got.EnvironmentVariables["NIGHTSHIFT_HOME"] != "/data/ä&b" || got.LimitLoadToSessionType != "Aqua" {
		t.Errorf("%+v", got)
	}
}
