package service

import (
	"fmt"
	"time"

	"howett.net/plist"
)

// daemon is a property list of a LaunchDaemon; see launchd.plist(5).
type daemon struct {
	Label                string            `plist:"Label"`
	Comment              string            `plist:"Comment"` // has the marker
	ProgramArguments     []string          `plist:"ProgramArguments"`
	UserName             string            `plist:"UserName"`
	WorkingDirectory     string            `plist:"WorkingDirectory"`
	EnvironmentVariables map[string]string `plist:"EnvironmentVariables"`
	RunAtLoad            bool              `plist:"RunAtLoad"`
	KeepAlive            bool              `plist:"KeepAlive,omitempty"`
	ThrottleInterval     int               `plist:"ThrottleInterval,omitempty"`
	StartInterval        int               `plist:"StartInterval,omitempty"`
	StartCalendar        map[string]int    `plist:"StartCalendarInterval,omitempty"`
	ExitTimeOut          int               `plist:"ExitTimeOut"`
	ProcessType          string            `plist:"ProcessType"`
	Umask                int               `plist:"Umask"`
	StandardOutPath      string            `plist:"StandardOutPath"`
	StandardErrorPath    string            `plist:"StandardErrorPath"`
	HardResourceLimits   map[string]int    `plist:"HardResourceLimits"`
	SoftResourceLimits   map[string]int    `plist:"SoftResourceLimits"`
}

// SpreadVariable tells a program that a timer starts to wait a random part of that time first, where the service
// manager cannot. It is a variable and no flag: the program may be of a version that knows it not.
const SpreadVariable = "INTERLOCK_SPREAD"

// renderLaunchd gives the text of a unit's property list. The log is the program's own file, which it
// keeps small; what launchd is given is for the last words of a program that dies before it has one.
func renderLaunchd(u Unit) (map[string]string, error) {
	limits := map[string]int{"NumberOfFiles": 65536, "Core": 0}
	d := daemon{
		Label: u.Name, Comment: marker, ProgramArguments: append([]string{u.Program}, u.Args...), UserName: u.User,
		WorkingDirectory: u.Dir, EnvironmentVariables: map[string]string{}, RunAtLoad: true,
		ExitTimeOut: int(u.StopWithin / time.Second), Umask: 0o077,
		// Standard jobs are throttled when they use the processor for long, which inference does.
		ProcessType:     "Interactive",
		StandardOutPath: "/dev/null", StandardErrorPath: u.Errors, HardResourceLimits: limits, SoftResourceLimits: limits,
	}
	for _, e := range u.Env {
		d.EnvironmentVariables[e[0]] = e[1]
	}
	if u.Restart {
		d.KeepAlive, d.ThrottleInterval = true, 10
	}
	if t := u.Timer; t != nil {
		d.ProcessType = "Background"
		if t.Every > 0 && t.Spread > 0 { // launchd knows no random delay
			d.EnvironmentVariables[SpreadVariable] = t.Spread.String()
		}
		d.StartInterval = int(t.Every / time.Second)
		if t.Daily != "" {
			at, err := time.Parse("15:04", t.Daily)
			if err != nil {
				return nil, fmt.Errorf("render %s: %w", u.Name, err)
			}
			d.RunAtLoad, d.StartCalendar = false, map[string]int{"Hour": at.Hour(), "Minute": at.Minute()}
		}
	}
	text, err := plist.MarshalIndent(d, plist.XMLFormat, "\t")
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", u.Name, err)
	}
	return map[string]string{u.Name + ".plist": string(text) + "\n"}, nil
}
