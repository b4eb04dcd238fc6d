package service

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"interlock.sh/fault"
)

// Nothing that a user can put into a request becomes a line, a file name or an option of root's.
func TestRequestsThatAreRefused(t *testing.T) {
	good := NewRequest(Install, testHome, client, looker)
	if text, err := json.Marshal(good); err != nil {
		t.Fatal(err)
	} else if _, err := ReadRequest(strings.NewReader(string(text))); err != nil {
		t.Fatalf("a good request: %v", err)
	}
	spec := func(change func(*Spec)) Request {
		s := client
		change(&s)
		return NewRequest(Install, testHome, s)
	}
	for name, q := range map[string]Request{
		"a group with a line end":      spec(func(s *Spec) { s.Group = "a\nUser=root" }),
		"a group with a slash":         spec(func(s *Spec) { s.Group = "../../etc/cron.d/x" }),
		"a group with a specifier":     spec(func(s *Spec) { s.Group = "a%n" }),
		"a group with a blank":         spec(func(s *Spec) { s.Group = "a --role trainer" }),
		"a group that is an option":    spec(func(s *Spec) { s.Group = "-f" }),
		"a group with capitals":        spec(func(s *Spec) { s.Group = "Group" }),
		"no group":                     spec(func(s *Spec) { s.Group = "" }),
		"a group of 64":                spec(func(s *Spec) { s.Group = strings.Repeat("a", 64) }),
		"a role that is none":          spec(func(s *Spec) { s.Role = "root" }),
		"an app folder elsewhere":      spec(func(s *Spec) { s.App = "../../../tmp" }),
		"an app folder with more":      spec(func(s *Spec) { s.App = "app-0123abcd/x" }),
		"an app folder of nobody":      spec(func(s *Spec) { s.App = "application" }),
		"a kind that is none":          spec(func(s *Spec) { s.Kind = "sshd" }),
		"an updater with a group":      spec(func(s *Spec) { s.Kind = Updater }),
		"a relative home":              NewRequest(Install, "home", client),
		"a home that climbs":           NewRequest(Install, "/home/fleet/../root", client),
		"the root as a home":           NewRequest(Install, "/", client),
		"a home with a line end":       NewRequest(Install, "/home/a\nUser=root", client),
		"a home with a quote":          NewRequest(Install, `/home/a"b`, client),
		"a home with a variable":       NewRequest(Install, "/home/$USER", client),
		"a home with a backslash":      NewRequest(Install, `/home/a\x0aUser=root`, client),
		"a home with a hidden mark":    NewRequest(Install, "/home/a\u202eb", client),
		"no service":                   NewRequest(Install, testHome),
		"one service twice":            NewRequest(Install, testHome, client, client),
		"all of them, to be installed": {Schema: 1, Verb: Install, Home: testHome, All: true},
		"a verb that is none":          NewRequest("exec", testHome, client),
		"a schema of later":            {Schema: 2, Verb: Install, Home: testHome, Services: []Spec{client}},
	} {
		text, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRequest(strings.NewReader(string(text))); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"nothing":             "",
		"no JSON":             "User=root",
		"a field of nobody's": `{"schema":1,"verb":"install","home":"/home/fleet/.nightshift","exec":"/bin/sh"}`,
		"something after it":  `{"schema":1,"verb":"remove","home":"/home/fleet/.nightshift","all":true}{}`,
		"too much":            strings.Repeat(" ", maxRequest+1),
	} {
		if _, err := ReadRequest(strings.NewReader(text)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestServeArgumentsThatAreRefused(t *testing.T) {
	good := Serve{Program: "/usr/local/lib/interlock/current/interlock", User: "interlock", Data: "/var/lib/interlock", BackupAt: "03:30", Keep: 7}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Serve){
		"an argument with a line end": func(s *Serve) { s.Args = []string{"--listen", ":80\nUser=root"} },
		"an argument with a quote":    func(s *Serve) { s.Args = []string{`a"b`} },
		"an argument with a variable": func(s *Serve) { s.Args = []string{"$HOME"} },
		"a user with a line end":      func(s *Serve) { s.User = "a\nb" },
		"a user that is an option":    func(s *Serve) { s.User = "-x" },
		"a relative data folder":      func(s *Serve) { s.Data = "data" },
		"no time":                     func(s *Serve) { s.BackupAt = "24:00" },
		"no backups kept":             func(s *Serve) { s.Keep = 0 },
	} {
		s := good
		change(&s)
		if err := s.Check(); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
