package service

import (
	_ "embed"
	"fmt"
	"strings"
	"text/template"
	"time"
)

// marker is the first line of every file that this package writes. A file without it is not ours.
const marker = "# Written by interlock. Changes are lost: make a drop-in instead."

//go:embed service.tmpl
var serviceText string

//go:embed timer.tmpl
var timerText string

var units = template.Must(template.New("").Funcs(template.FuncMap{
	"quote": quoteUnit, "escape": escapeUnit, "seconds": seconds,
}).Parse(`{{define "service"}}` + serviceText + `{{end}}{{define "timer"}}` + timerText + `{{end}}`))

// systemdFacts is what the text of a unit depends on beside the unit.
type systemdFacts struct {
	version int  // of systemd
	selinux bool // the policy keeps systemd from programs in home folders
}

// renderSystemd gives the texts of a unit's files by their names.
func renderSystemd(u Unit, f systemdFacts) (map[string]string, error) {
	files := map[string]string{}
	for kind, wanted := range map[string]bool{"service": true, "timer": u.Timer != nil} {
		if !wanted {
			continue
		}
		var b strings.Builder
		err := units.ExecuteTemplate(&b, kind, struct {
			Unit
			Marker  string
			Command string
			// Steps of a growing pause exist since systemd 254; an older one would warn of unknown keys. They
			// count over the whole life of a service, well or not between, so the longest pause is one that
			// whoever restarts an agent on purpose, or reverts a bad version, can wait for.
			Backoff bool
		}{u, marker, commandLine(u, f), f.version >= 254})
		if err != nil {
			return nil, fmt.Errorf("render %s.%s: %w", u.Name, kind, err)
		}
		files[u.Name+"."+kind] = b.String()
	}
	return files, nil
}

// commandLine is ExecStart. Where SELinux is on, systemd itself may not run a program below a home
// folder; env, which it may run, may.
func commandLine(u Unit, f systemdFacts) string {
	words := append([]string{u.Program}, u.Args...)
	if f.selinux {
		words = append([]string{"/usr/bin/env"}, words...)
	}
	for i, w := range words {
		words[i] = quoteUnit(w)
	}
	return strings.Join(words, " ")
}

// quoteUnit is one word of a unit's line. checkPath has kept out what cannot be quoted.
func quoteUnit(s string) string {
	s = escapeUnit(s)
	if !strings.ContainsAny(s, " ;#") {
		return s
	}
	return `"` + s + `"`
}

// escapeUnit takes the meaning from what systemd calls specifiers.
func escapeUnit(s string) string { return strings.ReplaceAll(s, "%", "%%") }

func seconds(d time.Duration) string { return fmt.Sprintf("%ds", int(d.Seconds())) }
