package enrollment

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/atomicfile"
)

const schema = 1

// Enrollment is one group and role on this machine.
type Enrollment struct {
	Home         Home          `json:"-"`
	Group        string        `json:"modelId"`
	GroupName    string        `json:"name"`
	Project      string        `json:"project"`
	Origin       string        `json:"origin"`
	Pin          string        `json:"pin,omitempty"`
	InsecureHTTP bool          `json:"insecureHttp,omitempty"`
	Role         fleet.Role    `json:"role"`
	Runtime      fleet.Runtime `json:"runtime"`
	Machine      string        `json:"machine"`
	Name         string        `json:"machineName"`
	HostID       string        `json:"hostId"`
}

// groupFile is group.json: what all roles of a group share.
type groupFile struct {
	Schema       int    `json:"schema"`
	Group        string `json:"modelId"`
	Name         string `json:"name"`
	Project      string `json:"project"`
	Origin       string `json:"origin"`
	Pin          string `json:"pin,omitempty"`
	InsecureHTTP bool   `json:"insecureHttp,omitempty"`
}

// roleFile is roles/<role>/role.json: what one machine is in its group.
type roleFile struct {
	Schema  int           `json:"schema"`
	Role    fleet.Role    `json:"role"`
	Runtime fleet.Runtime `json:"runtime"`
	Machine string        `json:"machine"`
	Name    string        `json:"name"`
	HostID  string        `json:"hostId"`
}

// Load reads one enrollment; fs.ErrNotExist when it is not there. The credential is written last: a
// folder without one is an enrollment that broke off, which is none. One of which a part is gone is damaged.
func (h Home) Load(group string, role fleet.Role) (Enrollment, error) {
	e, err := h.load(group, role)
	if err != nil {
		return Enrollment{}, err
	}
	return e, nil
}

// load gives, beside an error, what could be read all the same.
func (h Home) load(group string, role fleet.Role) (Enrollment, error) {
	e := Enrollment{Home: h, Group: group, GroupName: group, Role: role}
	if _, err := os.Stat(e.envPath()); err != nil {
		if errors.Is(err, fs.ErrNotExist) && e.served() {
			return e, gone(e.envPath())
		}
		return e, fmt.Errorf("look for the credential: %w", err)
	}
	var g groupFile
	var r roleFile
	errGroup := readJSON(filepath.Join(h.Group(group), "group.json"), &g)
	if errGroup == nil {
		e.GroupName, e.Project, e.Origin, e.Pin, e.InsecureHTTP = g.Name, g.Project, g.Origin, g.Pin, g.InsecureHTTP
	}
	errRole := readJSON(filepath.Join(h.Role(group, role), "role.json"), &r)
	if errRole == nil {
		e.Runtime, e.Machine, e.Name, e.HostID = r.Runtime, r.Machine, r.Name, r.HostID
	}
	if err := cmp.Or(errGroup, errRole); err != nil {
		return e, err
	}
	e.Group, e.Role = g.Group, r.Role
	return e, nil
}

// served is true when an agent of the role ran and left its door, or runs: an enrollment that broke off never
// had one.
func (e Enrollment) served() bool {
	path, _ := e.Home.SocketPath(e.Group, e.Role)
	st, err := os.Lstat(path)
	if err != nil || st.Mode()&fs.ModeSocket == 0 {
		return false
	}
	_, err = os.Stat(e.Dir())
	return err == nil
}

func readJSON(path string, into any) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return gone(path)
	}
	if err != nil {
		return err
	}
	var v struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return damaged(path, err)
	}
	if v.Schema > schema {
		return fault.Wrap(errNewer, fault.Invalid, "%s has schema %d; this version reads %d", path, v.Schema, schema).WithHint("use the version that wrote it, or a newer one")
	}
	if v.Schema != schema {
		return damaged(path, fmt.Errorf("schema %d was never written", v.Schema))
	}
	if err := json.Unmarshal(b, into); err != nil {
		return damaged(path, err)
	}
	return nil
}

var (
	errDamaged = errors.New("damaged")
	errNewer   = errors.New("of a newer version")
)

func damaged(path string, cause error) error {
	return fault.Wrap(errDamaged, fault.Invalid, "%s is damaged: %v", path, cause).WithHint(mendHint)
}

// gone is the damage of an enrollment that somebody deleted in part.
func gone(path string) error {
	return fault.Wrap(errDamaged, fault.Invalid, "%s is gone", path).WithHint(mendHint)
}

const mendHint = "restore it, or enroll again with a fresh key"

// Dir is the folder of the role.
func (e Enrollment) Dir() string { return e.Home.Role(e.Group, e.Role) }

// PidFile names the process of the role's agent.
func (e Enrollment) PidFile() string { return filepath.Join(e.Dir(), "agent.pid") }

// save writes the enrollment with its credential; the credential last, so that an enrollment that broke
// off is none.
func (e Enrollment) save(credential string) error {
	if err := os.MkdirAll(e.Dir(), 0o700); err != nil {
		return fmt.Errorf("make %s: %w", e.Dir(), err)
	}
	files := []struct {
		path string
		v    any
	}{
		{filepath.Join(e.Home.Group(e.Group), "group.json"), groupFile{schema, e.Group, e.GroupName, e.Project, e.Origin, e.Pin, e.InsecureHTTP}},
		{filepath.Join(e.Dir(), "role.json"), roleFile{schema, e.Role, e.Runtime, e.Machine, e.Name, e.HostID}},
	}
	for _, f := range files {
		b, err := json.MarshalIndent(f.v, "", "  ")
		if err != nil {
			return err
		}
		if err := atomicfile.Write(f.path, append(b, '\n'), 0o600); err != nil {
			return err
		}
	}
	env, err := e.Env()
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if env == nil {
		env = Env{}
	}
	env[envCredential] = credential
	return env.write(e.envPath())
}

// Env is the role's environment file: the credential and the owner's settings, read by the agent
// itself on every system and handed to no child.
type Env map[string]string

// The variables of the environment file.
const (
	envCredential  = "INTERLOCK_MACHINE_CREDENTIAL"
	EnvLlamaServer = "LLAMA_SERVER"          // path of the llama-server to use
	EnvLeaveGrace  = "INTERLOCK_LEAVE_GRACE" // for work in hand when the owner's hours end, as in 120s
)

func (e Enrollment) envPath() string { return filepath.Join(e.Dir(), "worker.env") }

// Env reads the environment file. One that others may read is refused.
func (e Enrollment) Env() (Env, error) {
	path := e.envPath()
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.Mode().Perm()&0o077 != 0 {
		return nil, fault.New(fault.Invalid, "%s has mode %v; others could read the credential", path, st.Mode().Perm()).WithHint("chmod 600 %s", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	env := Env{}
	for i, line := range strings.Split(string(b), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		k, v, ok := strings.Cut(line, "=")
		if !ok {
			return nil, fault.New(fault.Invalid, "%s line %d is no NAME=value", path, i+1)
		}
		env[strings.TrimSpace(k)] = strings.TrimSpace(v)
	}
	return env, nil
}

func (v Env) write(path string) error {
	var b strings.Builder
	b.WriteString("# Read by interlock agent. Keep it to yourself: it holds this machine's credential.\n")
	b.WriteString(envCredential + "=" + v[envCredential] + "\n")
	for _, k := range slices.Sorted(maps.Keys(v)) {
		if k != envCredential {
			b.WriteString(k + "=" + v[k] + "\n")
		}
	}
	return atomicfile.Write(path, []byte(b.String()), 0o600)
}

// Client connects as this machine.
func (e Enrollment) Client(version string) (*client.Client, error) {
	env, err := e.Env()
	if err != nil {
		return nil, fmt.Errorf("read the machine credential: %w", err)
	}
	return client.New(client.Options{
		BaseURL: e.Origin, Credential: env[envCredential], Pin: e.Pin, InsecureHTTP: e.InsecureHTTP,
		UserAgent: "interlock-agent/" + version,
	})
}
