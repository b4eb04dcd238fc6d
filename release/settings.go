package release

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"interlock.sh/fault"
)

const (
	settingsName   = "settings.json"
	settingsSchema = 1
	day            = 24 * time.Hour
)

// Settings are the lifetimes of what is signed, in whole days.
type Settings struct {
	Schema        int `json:"schema"`
	RootDays      int `json:"rootDays"`
	TargetsDays   int `json:"targetsDays"`
	SnapshotDays  int `json:"snapshotDays"`
	TimestampDays int `json:"timestampDays"`
}

// DefaultSettings are two years for the root, 90 days for targets and snapshot, 14 for the timestamp:
// a release machine that is away for two weeks stops updates, and nothing else.
func DefaultSettings() Settings {
	return Settings{Schema: settingsSchema, RootDays: 730, TargetsDays: 90, SnapshotDays: 90, TimestampDays: 14}
}

// Check refuses lifetimes that could not hold.
func (s Settings) Check() error {
	for _, v := range []struct {
		field string
		days  int
	}{{"rootDays", s.RootDays}, {"targetsDays", s.TargetsDays}, {"snapshotDays", s.SnapshotDays}, {"timestampDays", s.TimestampDays}} {
		if v.days < 1 || v.days > 3650 {
			return fault.New(fault.Invalid, "%s is %d; a lifetime is 1 to 3650 days", v.field, v.days).WithField(v.field)
		}
	}
	return nil
}

func readSettings(dir string) (Settings, error) {
	text, err := readBounded(filepath.Join(dir, settingsName), maxKeyFile)
	if err != nil {
		return Settings{}, fmt.Errorf("read settings: %w", err)
	}
	var s Settings
	if err := json.Unmarshal(text, &s); err != nil || s.Schema != settingsSchema {
		return Settings{}, fault.New(fault.Invalid, "%s cannot be read: it is JSON with schema %d", settingsName, settingsSchema)
	}
	return s, s.Check()
}

func days(n int) time.Duration { return time.Duration(n) * day }
