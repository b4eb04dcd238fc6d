package service

import (
	"path/filepath"
	"time"
)

// Unit is one service in full, before it is written down for a service manager.
type Unit struct {
	Name        string
	Description string
	Docs        string
	Program     string
	Args        []string
	User        string // who it runs as; never root but for what root asked for
	Dir         string // working directory
	Env         [][2]string
	Writable    []string // the only folders it may write to; one that is missing is passed over
	Groups      []string // more groups of the user: those that may use the accelerators

	Restart     bool // start again after every end, with a growing pause
	StopWithin  time.Duration
	Accelerator bool          // reaches graphics devices and compiles for them in memory
	Sandboxes   bool          // makes namespaces of its own for what it runs
	Within      time.Duration // a program that ends by itself may take so long; 0 is no limit
	LowPorts    bool          // binds ports below 1024
	OwnProc     bool          // sees a fresh /proc, which some protections bring with them
	Errors      string        // file of its last words, where the manager keeps no journal

	Timer *Timer // when it is not started at boot but every so often
}

// Timer says when a service that ends by itself runs.
type Timer struct {
	AfterBoot time.Duration // the first time
	Every     time.Duration // after the end of the run before
	Daily     string        // HH:MM instead of Every
	Spread    time.Duration // a random part of this later, so that not all machines ask at once
}

// account is a user as the service manager and the units need it.
type account struct {
	name   string
	uid    int
	home   string
	groups []string // groups of the accelerators that this machine has
}

// Times of the services.
const (
	stopAgent    = 3 * time.Minute // two for the work in hand, and the last heartbeat
	updateEvery  = 20 * time.Minute
	updateSpread = 4 * time.Minute
	updateWithin = 8 * time.Hour // a busy machine is waited for
)

const docs = "https://docs.interlock.sh/"

// homeVariable tells an agent its folder.
const homeVariable = "NIGHTSHIFT_HOME"

// caches are folders of a user's home in which model servers keep what they compiled.
var caches = []string{".cache", ".nv"}

// unit fills in what a Spec stands for. home is the agent's folder, ~/.nightshift, by the name that its user
// has for it, and by which its sockets are found; real is what that leads to, and all that is run or written is
// below it.
func (s Spec) unit(home, real string, who account) Unit {
	app := filepath.Join(real, s.App)
	u := Unit{
		Name: s.Name(), User: who.name, Dir: real, StopWithin: stopAgent,
		Env: [][2]string{{"HOME", who.home}, {homeVariable, home}},
		// Sockets of a home whose path is too long stand in /tmp.
		Writable: []string{real, "/tmp", "/var/tmp"},
	}
	for _, name := range caches {
		u.Writable = append(u.Writable, filepath.Join(who.home, name))
	}
	switch s.Kind {
	case ModelWorker:
		u.Description = "Interlock model worker: group " + s.Group + ", role " + s.Role
		u.Docs = docs + "model-fleet"
		u.Program = filepath.Join(app, "current", "interlock")
		u.Args = []string{"agent", "run", "--group", s.Group, "--role", s.Role, "--log-file"}
		u.Groups, u.Restart, u.Accelerator, u.Sandboxes = who.groups, true, true, s.Role == "trainer"
		u.Errors = filepath.Join(real, "groups", s.Group, "roles", s.Role, "last-words.log")
	case Updater:
		u.Description = "Interlock updates: look for a newer release"
		u.Docs = docs + "model-fleet"
		// A link of its own: a release that cannot even start must not be the one that looks for the next.
		u.Program = filepath.Join(app, "updater", "interlock")
		u.Args = []string{"updater", "run"}
		u.Within = updateWithin
		u.Timer = &Timer{AfterBoot: 2 * time.Minute, Every: updateEvery, Spread: updateSpread}
		u.Errors = filepath.Join(app, "updater.log")
	case TaskWorker:
		state := filepath.Join(who.home, ".interlock", "task-worker")
		u.Description = "Interlock task worker"
		u.Docs = docs + "self-hosted-ai"
		u.Program = filepath.Join(state, s.App, "current", "interlock")
		u.Args = []string{"hardware", "run"}
		u.Dir, u.Env = state, u.Env[:1]
		u.Writable = append([]string{state}, u.Writable[1:]...)
		u.Groups, u.Restart, u.Accelerator = who.groups, true, true
		u.Errors = filepath.Join(state, "logs", "last-words.log")
	}
	return u
}
