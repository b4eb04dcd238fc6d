package build

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Want is what a machine asks for.
type Want struct {
	Program string
	OS      string
	Arch    string
	Current string // version that it has; "" has none
	// Channel is the owner's choice: Stable takes what is released, Canary volunteers for every canary,
	// and "" goes by lot: the machine is in the canary when its bucket is below the percentage.
	Channel string
	Machine string // id that the lot is drawn by
	// Quarantined are the versions that failed here, with the reason.
	Quarantined map[string]string
	// Version asks for this version alone, a lower one and one that the lot left out included.
	Version string
}

// Pick is the target that a machine should run next: the highest one above its own version that is for
// its platform and channel, is not yanked, did not fail here and can be reached from where it is. ok is
// false when there is none; why then says so in words, and also says what was passed over when there is.
func Pick(targets []Target, want Want) (best Target, why string, ok bool) {
	var passed Target // the highest that was left out, for why
	note := func(t Target, reason string) {
		if passed.Version == "" || Compare(t.Version, passed.Version) > 0 {
			passed, why = t, reason
		}
	}
	offered := false
	for _, t := range targets {
		if t.Program != want.Program || t.OS != want.OS || t.Arch != want.Arch || (want.Version != "" && t.Version != want.Version) {
			continue
		}
		offered = true
		if want.Version == "" && want.Current != "" && Compare(t.Version, want.Current) <= 0 {
			continue
		}
		if reason := refuse(t, want); reason != "" {
			note(t, reason)
			continue
		}
		if !ok || Compare(t.Version, best.Version) > 0 {
			best, ok = t, true
		}
	}
	switch {
	case ok && passed.Version != "" && Compare(passed.Version, best.Version) > 0:
		return best, why, true
	case ok:
		return best, "", true
	case why != "":
		return Target{}, why, false
	case !offered && want.Version != "":
		return Target{}, fmt.Sprintf("no version %s of %s for %s-%s was released", want.Version, want.Program, want.OS, want.Arch), false
	case !offered:
		return Target{}, fmt.Sprintf("no release of %s for %s-%s", want.Program, want.OS, want.Arch), false
	}
	return Target{}, want.Current + " is the newest", false
}

// refuse says why a target of the right platform is not for this machine, or "".
func refuse(t Target, want Want) string {
	if t.Yanked != "" {
		return fmt.Sprintf("%s was withdrawn: %s", t.Version, t.Yanked)
	}
	if reason, bad := want.Quarantined[t.Version]; bad {
		return fmt.Sprintf("%s failed on this machine: %s", t.Version, reason)
	}
	if t.MinVersion != "" && want.Current != "" && Compare(want.Current, t.MinVersion) < 0 {
		return fmt.Sprintf("%s can be reached from %s on; this machine has %s", t.Version, t.MinVersion, want.Current)
	}
	if want.Version == "" && !t.offered(want) {
		return fmt.Sprintf("%s is not for this machine yet", t.Version)
	}
	return ""
}

// offered reports whether a target's channels include the machine.
func (t Target) offered(want Want) bool {
	bucket := Bucket(want.Machine, t.Version)
	if bucket < t.Channels[Stable] {
		return true
	}
	switch want.Channel {
	case Stable:
		return false
	case Canary:
		return t.Channels[Canary] > 0
	}
	return bucket < t.Channels[Canary]
}

// Bucket is a machine's lot for a version, from 0 to 99. It stays the same for the pair, so a growing
// percentage only adds machines; for another version other machines come first.
func Bucket(machine, version string) int {
	sum := sha256.Sum256([]byte(machine + "\x00" + version))
	return int(binary.BigEndian.Uint64(sum[:8]) % 100)
}
