package hardware

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"interlock.sh/ai"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/atomicfile"
	"interlock.sh/tasks"
)

// The variables of the file of settings. EnvKey is also what the install line exports.
const (
	EnvURL         = "INTERLOCK_URL"
	EnvKey         = "INTERLOCK_TASK_WORKER_KEY"
	EnvPin         = "INTERLOCK_PIN"
	EnvInsecure    = "INTERLOCK_INSECURE_HTTP"
	EnvWorker      = "INTERLOCK_WORKER_ID"
	EnvAlias       = "LLM_ALIAS"
	EnvModel       = "LLM_MODEL"
	EnvServer      = "LLM_URL"
	EnvServerKey   = "LLM_API_KEY"
	EnvAllowRemote = "LLM_ALLOW_REMOTE"
	EnvContext     = "LLM_CONTEXT"
	EnvSlots       = "LLM_SLOTS"
	EnvLlamaServer = "LLAMA_SERVER"
)

// Names are the variables in the order in which the file has them.
func Names() []string {
	return []string{
		EnvURL, EnvKey, EnvPin, EnvInsecure, EnvWorker, EnvAlias, EnvModel, EnvServer, EnvServerKey, EnvAllowRemote,
		EnvContext, EnvSlots, EnvLlamaServer,
	}
}

// Settings are what the file says.
type Settings struct {
	URL          string
	Key          string
	Pin          string
	InsecureHTTP bool
	Worker       string // id at the control plane, the same over restarts
	Alias        string // of the model, which runs name
	Model        string // path of the weights; "" with a server that the operator named
	Server       string // base URL of that server; "" starts one of our own
	ServerKey    string // its key; "" when it has none
	AllowRemote  bool   // it may be on another machine, by the operator's choice
	Context      int    // tokens a slot; of a server that the operator named, at least
	Slots        int    // requests at once; 0 of a server that the operator named: what it has
	LlamaServer  string // path of llama-server; "" looks for it
}

// Variables reads the file of settings as it is; none when it is not there. A file that others could read
// is refused.
func (h Home) Variables() (map[string]string, error) {
	st, err := os.Stat(h.Env())
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return nil, fault.New(fault.Invalid, "%s has mode %v; others could read the key", h.Env(), st.Mode().Perm()).WithHint("chmod 600 %s", h.Env())
	}
	b, err := os.ReadFile(h.Env())
	if err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	out := map[string]string{}
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		k, v, ok := strings.Cut(line, "=")
		if !ok {
			return nil, fault.New(fault.Invalid, "%s line %d is no NAME=value", h.Env(), n).WithHint("mend or remove the line")
		}
		out[strings.TrimSpace(k)] = strings.TrimSpace(v)
	}
	return out, nil
}

// Write replaces the file of settings. Variables that this version does not know are kept.
func (h Home) Write(vars map[string]string) error {
	if err := h.prepare(); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("# Read by interlock hardware. Keep it to yourself: it holds the key of this worker.\n")
	known := map[string]bool{}
	line := func(name string) error {
		known[name] = true
		if strings.ContainsFunc(vars[name], func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fault.New(fault.Invalid, "the value of %s has control characters", name).WithField(name)
		}
		if vars[name] != "" {
			b.WriteString(name + "=" + vars[name] + "\n")
		}
		return nil
	}
	for _, name := range Names() {
		if err := line(name); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if !known[name] {
			if err := line(name); err != nil {
				return err
			}
		}
	}
	return atomicfile.Write(h.Env(), []byte(b.String()), 0o600)
}

// Settings reads and checks the file of settings.
func (h Home) Settings() (Settings, error) {
	vars, err := h.Variables()
	if err != nil {
		return Settings{}, err
	}
	return h.Parse(vars)
}

// Parse checks variables. The weights of a known profile are looked for in the folder of models when the
// settings name none.
func (h Home) Parse(vars map[string]string) (Settings, error) {
	s := Settings{
		URL: vars[EnvURL], Key: vars[EnvKey], Pin: vars[EnvPin], Worker: vars[EnvWorker], Alias: vars[EnvAlias], Model: vars[EnvModel],
		Server: strings.TrimRight(vars[EnvServer], "/"), ServerKey: vars[EnvServerKey], LlamaServer: vars[EnvLlamaServer],
	}
	missing := func(name, hint string) error {
		return fault.New(fault.Invalid, "%s is missing in %s", name, h.Env()).WithField(name).WithHint("%s", hint)
	}
	switch {
	case s.URL == "":
		return s, missing(EnvURL, "run the install line of `interlock hardware command`")
	case s.Key == "":
		return s, missing(EnvKey, "run the install line of `interlock hardware command`, or put a task-worker key there")
	case s.Worker == "":
		return s, missing(EnvWorker, "give this machine a name of its own in the project")
	}
	if err := tasks.CheckLabel(EnvWorker, s.Worker, true); err != nil {
		return s, err
	}
	if s.Alias == "" {
		s.Alias = ai.Profiles()[0].Alias
	}
	if err := tasks.CheckLabel(EnvAlias, ai.HardwarePool(s.Alias), true); err != nil {
		return s, err
	}
	var err error
	if s.InsecureHTTP, err = flag(vars, EnvInsecure); err != nil {
		return s, err
	}
	if s.AllowRemote, err = flag(vars, EnvAllowRemote); err != nil {
		return s, err
	}
	if s.Slots, err = number(vars, EnvSlots, 64); err != nil {
		return s, err
	}
	if s.Context, err = number(vars, EnvContext, 1<<24); err != nil {
		return s, err
	}
	if s.Server != "" {
		return s, checkBoundary(s.Server, s.AllowRemote)
	}
	if s.Slots == 0 {
		s.Slots = 1
	}
	if s.Context == 0 {
		s.Context = fleet.DefaultContext
	}
	if s.Model == "" {
		s.Model = h.weights(s.Alias)
	}
	return s, nil
}

func flag(vars map[string]string, name string) (bool, error) {
	switch vars[name] {
	case "", "0":
		return false, nil
	case "1":
		return true, nil
	}
	return false, fault.New(fault.Invalid, "%s is %q; it is 1 or 0", name, vars[name]).WithField(name)
}

func number(vars map[string]string, name string, most int) (int, error) {
	if vars[name] == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(vars[name])
	if err != nil || n < 1 || n > most {
		return 0, fault.New(fault.Invalid, "%s is %q; it is a number from 1 to %d", name, vars[name], most).WithField(name)
	}
	return n, nil
}
