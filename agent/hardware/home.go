package hardware

import (
	"os"
	"path/filepath"

	"interlock.sh/fault"
)

// Home is the folder of the worker.
type Home string

// DefaultHome is ~/.interlock/task-worker.
func DefaultHome() (Home, error) {
	h, err := os.UserHomeDir()
	if err != nil {
		return "", fault.Wrap(err, fault.Invalid, "the home folder of this user is not known").WithHint("set HOME")
	}
	return Home(filepath.Join(h, ".interlock", "task-worker")), nil
}

// Env is the file of settings, which holds the key.
func (h Home) Env() string { return filepath.Join(string(h), "env") }

// App is the folder of programs.
func (h Home) App() string { return filepath.Join(string(h), "app") }

// Program is the program that the service runs.
func (h Home) Program() string { return filepath.Join(h.App(), "current", "interlock") }

// Logs is the folder of logs.
func (h Home) Logs() string { return filepath.Join(string(h), "logs") }

// Log is the worker's own log.
func (h Home) Log() string { return filepath.Join(h.Logs(), "worker.log") }

// Models is the folder for weights.
func (h Home) Models() string { return filepath.Join(string(h), "models") }

func (h Home) run() string { return filepath.Join(string(h), "run") }

// prepare makes the folders.
func (h Home) prepare() error {
	for _, dir := range []string{string(h), h.Logs(), h.Models(), h.run()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fault.Wrap(err, fault.Invalid, "%s cannot be made: %v", dir, err).WithHint("is the home folder writable?")
		}
	}
	return nil
}
