package hostfacts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheZoneIsReadAsItIsSetNow(t *testing.T) {
	berlin, err := os.ReadFile(filepath.Join("testdata", "Berlin"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, tz        string
		link            string // of localtime, from etc
		file            []byte // of localtime
		timezone        string
		want, at, words string
	}{
		{name: "a link", link: "zoneinfo/Europe/Berlin", want: "Europe/Berlin", at: "14:00"},
		{name: "a link whose file is not there", link: "/usr/share/zoneinfo/Asia/Kathmandu", want: "Asia/Kathmandu", at: "17:45"},
		{name: "the link wins over the old file", link: "zoneinfo/Europe/Berlin", timezone: "America/New_York\n", want: "Europe/Berlin", at: "14:00"},
		{name: "TZ wins", tz: "America/New_York", link: "zoneinfo/Europe/Berlin", want: "America/New_York", at: "08:00"},
		{name: "TZ with a colon", tz: ":Asia/Kathmandu", want: "Asia/Kathmandu", at: "17:45"},
		{name: "a copy and its name", file: berlin, timezone: "Europe/Berlin\n", want: "Europe/Berlin", at: "14:00"},
		{name: "a copy without a name", file: berlin, want: "", at: "14:00"},
		{name: "a name alone", timezone: "Europe/Berlin\n", want: "Europe/Berlin", at: "14:00"},
		{name: "nothing is UTC", want: "UTC", at: "12:00"},
		{name: "a link to no zone", link: "/usr/share/zoneinfo/Mars/Olympus", words: `time zone "Mars/Olympus" of `},
		{name: "TZ is no zone", tz: "Mars/Olympus", link: "zoneinfo/Europe/Berlin", words: `time zone "Mars/Olympus" of TZ does not exist`},
		{name: "TZ leads out of the database", tz: "../../etc/passwd", words: "does not exist"},
		{name: "a name of no zone", timezone: "Nowhere/City", words: `time zone "Nowhere/City" of `},
		{name: "a damaged copy and no name", file: []byte("TZif?"), want: "UTC", at: "12:00"},
	} {
		etc := t.TempDir()
		put := func(name string, b []byte) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(etc, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if c.link != "" {
			if err := os.Symlink(c.link, filepath.Join(etc, "localtime")); err != nil {
				t.Fatal(err)
			}
		}
		if c.file != nil {
			put("localtime", c.file)
		}
		if c.timezone != "" {
			put("timezone", []byte(c.timezone))
		}
		got := zoneOf(c.tz, etc)
		if c.words != "" {
			_, offset := time.Now().In(got.Location).Zone()
			_, local := time.Now().Local().Zone()
			if !strings.Contains(got.Problem, c.words) || !strings.Contains(got.Problem, "until it is set right") || got.Name != "" || offset != local {
				t.Errorf("%s: %+v", c.name, got)
			}
			continue
		}
		noon := time.Date(2026, 6, 10, 12, 0, 0, 0, time.UTC)
		if got.Name != c.want || got.Problem != "" || noon.In(got.Location).Format("15:04") != c.at {
			t.Errorf("%s: %+v, %s", c.name, got, noon.In(got.Location).Format("15:04"))
		}
	}
}
