package hostfacts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	_ "time/tzdata" // a machine without a zone database has its hours all the same
)

// Zone is the machine's time zone as it is set now.
type Zone struct {
	Name     string         // of the IANA database; "" when it is not known by name
	Location *time.Location // never nil
	Problem  string         // in words, when the zone that is set cannot be used
}

// LocalZone reads the zone anew, so that a traveller's laptop needs no restart. A zone that does not exist
// is a Problem, and the offset from UTC that the system goes by now stands in for it.
func LocalZone() Zone { return zoneOf(os.Getenv("TZ"), "/etc") }

// zoneOf goes by TZ like every program, then by what the system's own link names.
func zoneOf(tz, etc string) Zone {
	name, source := strings.TrimPrefix(tz, ":"), "TZ"
	file := filepath.Join(etc, "localtime")
	if name == "" {
		name, source = linkedZone(file), file
	}
	if name != "" {
		loc, err := time.LoadLocation(name)
		if err == nil {
			return Zone{Name: name, Location: loc}
		}
		if loc, err := fromFile(name); filepath.IsAbs(name) && err == nil {
			return Zone{Location: loc}
		}
		return fallback(fmt.Sprintf("the time zone %q of %s does not exist", name, source))
	}
	loc, err := fromFile(file)
	named := zoneFile(etc)
	switch {
	case err == nil:
		return Zone{Name: named, Location: loc}
	case named == "":
		return Zone{Name: "UTC", Location: time.UTC} // as every program takes it where nothing is set
	}
	if loc, err := time.LoadLocation(named); err == nil {
		return Zone{Name: named, Location: loc}
	}
	return fallback(fmt.Sprintf("the time zone %q of %s does not exist", named, filepath.Join(etc, "timezone")))
}

// linkedZone is the zone that the link names, "" when it is none.
func linkedZone(link string) string {
	target, err := os.Readlink(link)
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(link); err == nil { // over links of links
		target = real
	}
	_, name, _ := strings.Cut(target, "zoneinfo/")
	return strings.TrimPrefix(strings.TrimPrefix(name, "posix/"), "right/")
}

func zoneFile(etc string) string {
	b, err := os.ReadFile(filepath.Join(etc, "timezone"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func fromFile(path string) (*time.Location, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return time.LoadLocationFromTZData("Local", b)
}

func fallback(problem string) Zone {
	label, offset := time.Now().Local().Zone()
	return Zone{
		Location: time.FixedZone(label, offset),
		Problem:  problem + "; hours are counted at UTC" + time.Now().Local().Format("-07:00") + " until it is set right",
	}
}
