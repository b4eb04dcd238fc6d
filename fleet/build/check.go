package build

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"interlock.sh/fault"
)

// Universal is the architecture of a macOS bundle that runs on both.
const Universal = "universal"

// platforms are the systems that each program is built for, as GOOS-GOARCH.
var platforms = map[string][]string{
	Interlock:  {"darwin-amd64", "darwin-arm64", "linux-amd64", "linux-arm64"},
	TUI:        {"darwin-amd64", "darwin-arm64", "linux-amd64", "linux-arm64"},
	Nightshift: {"darwin-" + Universal, "linux-amd64", "linux-arm64"},
}

const maxReason = 200 // bytes of a yank's reason: it is shown in one line

// Programs lists the programs that are released, sorted.
func Programs() []string { return slices.Sorted(maps.Keys(platforms)) }

// Platforms lists the GOOS-GOARCH pairs of a program, sorted; none for an unknown program.
func Platforms(program string) []string { return slices.Clone(platforms[program]) }

// Platform is the target's GOOS-GOARCH.
func (t Target) Platform() string { return t.OS + "-" + t.Arch }

// Check refuses a target that no machine could be offered. A target that passes has a Path of three
// plain names: nothing of it can leave the folder that it is put into.
func (t Target) Check() error {
	offered, ok := platforms[t.Program]
	if !ok {
		return fault.New(fault.Invalid, "program is %.40q; it is one of %s", t.Program, strings.Join(Programs(), ", ")).WithField("program")
	}
	if !slices.Contains(offered, t.Platform()) {
		return fault.New(fault.Invalid, "%s is not released for %.40q; it is for %s", t.Program, t.Platform(), strings.Join(offered, ", ")).WithField("os")
	}
	if err := CheckVersion(t.Version); err != nil {
		return err
	}
	if t.MinVersion != "" {
		if err := CheckVersion(t.MinVersion); err != nil {
			return fault.Of(err).WithField("minVersion")
		}
		if Compare(t.MinVersion, t.Version) >= 0 {
			return fault.New(fault.Invalid, "minVersion %s is not below version %s: nothing could ever go to it", t.MinVersion, t.Version).WithField("minVersion").
				WithHint("leave it out, or name an older version")
		}
	}
	if len(t.Yanked) > maxReason || strings.ContainsFunc(t.Yanked, isControl) {
		return fault.New(fault.Invalid, "the reason of a yank is one line of at most %d bytes; it has %d", maxReason, len(t.Yanked)).WithField("yanked")
	}
	for _, channel := range slices.Sorted(maps.Keys(t.Channels)) {
		if err := CheckShare(channel, t.Channels[channel]); err != nil {
			return err
		}
	}
	return nil
}

// CheckShare refuses an unknown channel and a percentage that is none.
func CheckShare(channel string, percent int) error {
	if channel != Stable && channel != Canary {
		return fault.New(fault.Invalid, "channel is %.40q; it is %s or %s", channel, Stable, Canary).WithField("channels")
	}
	if percent < 0 || percent > 100 {
		return fault.New(fault.Invalid, "%s is for %d percent of the machines; it goes from 0 to 100", channel, percent).WithField("channels." + channel)
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// Decode reads the description of a signed target and holds it to the path that it was signed under:
// a description that belongs to another file is refused. Fields that it does not know are passed over,
// so an older program reads what a newer one signed.
func Decode(path string, custom []byte) (Target, error) {
	var t Target
	if err := json.Unmarshal(custom, &t); err != nil {
		return Target{}, fault.Wrap(err, fault.Invalid, "the description of target %.120q cannot be read: %v", path, err)
	}
	if err := t.Check(); err != nil {
		return Target{}, fault.Wrap(err, fault.Invalid, "target %.120q: %v", path, err)
	}
	if t.Path() != path {
		return Target{}, fault.New(fault.Invalid, "target %.120q describes %s: a description stands at its own path only", path, t.Path())
	}
	return t, nil
}
