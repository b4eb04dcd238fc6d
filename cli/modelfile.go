package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"interlock.sh/cli/profile"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/atomicfile"
)

// modelFileName says in a model project's folder which group the folder is. It holds no secret and
// belongs into version control.
const modelFileName = "interlock-model.json"

const modelFileVersion = 1

type modelFile struct {
	SchemaVersion int    `json:"schemaVersion"`
	Name          string `json:"name"`
	ModelID       string `json:"modelId,omitempty"` // fixed by the registration, empty before
	Origin        string `json:"origin,omitempty"`
	Project       string `json:"project,omitempty"`
}

func (m modelFile) save(dir string) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", modelFileName, err)
	}
	if err := atomicfile.Write(filepath.Join(dir, modelFileName), append(data, '\n'), 0o644); err != nil {
		return fault.Wrap(err, fault.Invalid, "cannot write %s: %v", filepath.Join(dir, modelFileName), err).
			WithHint("make %s a folder that you can write, or name another with --dir", dir)
	}
	return nil
}

// loadModelFile reads the file of a model project; fs.ErrNotExist when there is none.
func loadModelFile(dir string) (modelFile, error) {
	path := filepath.Join(dir, modelFileName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return modelFile{}, err
	}
	if err != nil {
		return modelFile{}, fault.Wrap(err, fault.Invalid, "cannot read %s: %v", path, err).WithHint("make it readable")
	}
	bad := func(format string, args ...any) error {
		return fault.New(fault.Malformed, "%s %s", path, fmt.Sprintf(format, args...)).
			WithHint("mend it, or take it from version control; `interlock models list` shows names and ids")
	}
	var m modelFile
	if err := json.Unmarshal(data, &m); err != nil {
		return m, bad("is no valid JSON: %v", err)
	}
	if m.SchemaVersion != modelFileVersion {
		return m, bad("has schemaVersion %d; this program reads %d", m.SchemaVersion, modelFileVersion)
	}
	if err := fleet.CheckName("name", m.Name); err != nil {
		return m, bad("is not usable: %v", err)
	}
	return m, nil
}

// groupRef is how a verb names its group: --group, or the model project in --dir.
type groupRef struct {
	group, dir string
	said       string // the group as people call it, once find knows it
}

// find is the group's name or id, with the session bound to its project.
func (g *groupRef) find(s *session, cwd string) (string, *session, error) {
	if g.group != "" {
		g.said = g.group
		return g.group, s, nil
	}
	dir := g.path(cwd)
	m, err := loadModelFile(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && g.dir == "":
		return "", nil, usage("which model group? name it with --group, or its project's folder with --dir")
	case errors.Is(err, fs.ErrNotExist):
		return "", nil, fault.New(fault.NotFound, "%s has no %s", dir, modelFileName).
			WithHint("register it with `interlock models register --dir %s`, or name the group with --group", g.dir)
	case err != nil:
		return "", nil, err
	case m.ModelID == "":
		return "", nil, fault.New(fault.Conflict, "%s is not registered yet", filepath.Join(dir, modelFileName)).
			WithHint("register it with `interlock models register --dir %s`", orDot(g.dir))
	case m.Origin != "" && !profile.SameServer(m.Origin, s.BaseURL()):
		return "", nil, fault.New(fault.Conflict, "%s belongs to %s, and this command would ask %s",
			filepath.Join(dir, modelFileName), m.Origin, s.BaseURL()).WithHint("add --api %s", m.Origin)
	}
	if m.Project != "" && s.Project() == "" {
		s = &session{Client: s.WithProject(m.Project), how: s.how}
	}
	g.said = m.Name
	return m.ModelID, s, nil
}

func (g *groupRef) path(cwd string) string {
	if filepath.IsAbs(g.dir) {
		return filepath.Clean(g.dir)
	}
	return filepath.Join(cwd, g.dir)
}

func orDot(dir string) string {
	if dir == "" {
		return "."
	}
	return dir
}
