package service

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"interlock.sh/fault"
)

// The services of a control plane.
const (
	ServeName  = Prefix + "serve"
	BackupName = Prefix + "backup"
)

// Serve is a control plane as a service. Root asks for it, so it carries what root typed.
type Serve struct {
	Program  string   // through a link that an upgrade swaps
	User     string   // who it runs as
	Data     string   // data folder
	Args     []string // more arguments of `interlock serve`
	LowPorts bool     // it listens below 1024
	Readable []string // files that the arguments name, such as certificates
	BackupAt string   // HH:MM of the daily backup
	Keep     int      // how many backups stay
}

const stopServe = 45 * time.Second // twenty for requests, and the store

// Check refuses what cannot stand in a unit.
func (s Serve) Check() error {
	if err := checkPath("program", s.Program); err != nil {
		return err
	}
	if err := checkPath("data", s.Data); err != nil {
		return err
	}
	if !userName.MatchString(s.User) {
		return fault.New(fault.Invalid, "user %q is no name of a system user", s.User).WithField("user")
	}
	if _, err := time.Parse("15:04", s.BackupAt); err != nil {
		return fault.New(fault.Invalid, "the time %q of the daily backup is no HH:MM", s.BackupAt).WithField("backup-at")
	}
	if s.Keep < 1 {
		return fault.New(fault.Invalid, "%d backups are to be kept; the least is 1", s.Keep).WithField("keep")
	}
	for _, a := range s.Args {
		for _, r := range a {
			if !unicode.IsPrint(r) || strings.ContainsRune(`"'\$`+"`", r) || !utf8.ValidString(a) {
				return fault.New(fault.Invalid, "the argument %q has the character %q, which a service definition cannot hold", a, r)
			}
		}
	}
	return nil
}

// ServeUnits are the control plane and its daily backup.
func ServeUnits(s Serve) (serve, backup Unit) {
	serve = Unit{
		Name: ServeName, Description: "Interlock control plane", Docs: docs + "model-fleet",
		Program: s.Program, Args: append([]string{"serve", "--data", s.Data}, s.Args...),
		User: s.User, Dir: s.Data, Writable: []string{s.Data}, Restart: true, StopWithin: stopServe, LowPorts: s.LowPorts, OwnProc: true,
		Errors: filepath.Join(s.Data, "serve.log"),
	}
	backup = Unit{
		Name: BackupName, Description: "Interlock control plane: daily backup", Docs: docs + "model-fleet",
		Program: s.Program, Args: []string{"serve", "backup", "--data", s.Data, "--keep", strconv.Itoa(s.Keep)},
		User: s.User, Dir: s.Data, Writable: []string{s.Data}, StopWithin: stopServe, Within: time.Hour, OwnProc: true,
		Errors: filepath.Join(s.Data, "backup.log"), Timer: &Timer{Daily: s.BackupAt, Spread: 10 * time.Minute},
	}
	return serve, backup
}
