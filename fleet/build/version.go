package build

import (
	"strings"

	"golang.org/x/mod/semver"

	"interlock.sh/fault"
)

const maxVersion = 64 // bytes: a version is a folder's name and stands in file names

// CheckVersion refuses what is no semantic version of three numbers. Build metadata ("+linux") is
// refused too: two versions that differ only in it would compare as equal.
func CheckVersion(version string) error {
	switch {
	case len(version) > maxVersion:
		return fault.New(fault.Invalid, "a version has at most %d bytes; this one has %d", maxVersion, len(version)).WithField("version")
	case strings.HasPrefix(version, "v"):
		return fault.New(fault.Invalid, "version %q begins with a v", version).WithField("version").WithHint("write %s", version[1:])
	case !semver.IsValid("v"+version) || semver.Canonical("v"+version) != "v"+version:
		return fault.New(fault.Invalid, "%q is no semantic version", version).WithField("version").
			WithHint("three numbers, as in 1.4.0 or 1.5.0-rc.1, without build metadata")
	}
	return nil
}

// Compare orders two versions: negative when a is lower, positive when it is higher. What is no version
// is lower than every version, so a build without one can go to any release.
func Compare(a, b string) int { return semver.Compare("v"+a, "v"+b) }
