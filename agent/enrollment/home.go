// Package enrollment is what a machine keeps on disk of its enrollments: the folders under
// ~/.nightshift, the identity of each group and role, and the machine credential. It exchanges a
// bootstrap key for that credential, once. It runs nothing.
//
//	~/.nightshift/
//	├── app/<version>/, app/current      the program
//	├── cache/blobs/<sha256>             model files, once a machine
//	├── ledger.json                      memory promised to model servers, all groups
//	└── groups/<modelId>/
//	    ├── group.json                   origin and identity, no secret
//	    ├── roles/<client|trainer>/      worker.env (0600, the credential), role.json, logs, run
//	    └── versions/<deploymentId>/     links into the cache
package enrollment

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/fleet/build"
	"interlock.sh/internal/ownersocket"
)

// Home is the folder that holds everything of the agent on one machine.
type Home string

// EnvHome is the environment variable that moves the home of the agent.
const EnvHome = "NIGHTSHIFT_HOME"

// DefaultHome is $NIGHTSHIFT_HOME, else ~/.nightshift.
func DefaultHome() (Home, error) {
	if h := os.Getenv(EnvHome); h != "" {
		return Home(h), nil
	}
	h, err := os.UserHomeDir()
	if err != nil {
		return "", fault.Wrap(err, fault.Invalid, "the home folder of this user is not known").WithHint("set HOME, or %s", EnvHome)
	}
	return Home(filepath.Join(h, ".nightshift")), nil
}

// Apps are the app folders that are there, the common one first: programs and what they trust, one a root of
// trust.
func (h Home) Apps() ([]string, error) {
	entries, err := os.ReadDir(string(h)) // sorted
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the app folders: %w", err)
	}
	var out []string
	for _, e := range entries {
		if _, ok := build.ReadApp(e.Name()); ok {
			out = append(out, filepath.Join(string(h), e.Name()))
		}
	}
	return out, nil
}

// Group is the folder of a group.
func (h Home) Group(id string) string { return filepath.Join(string(h), "groups", id) }

// Role is the folder of a role in a group.
func (h Home) Role(id string, role fleet.Role) string {
	return filepath.Join(h.Group(id), "roles", string(role))
}

// Version is the folder of a deployment's files: links into the cache.
func (h Home) Version(group, deployment string) string {
	return filepath.Join(h.Group(group), "versions", deployment)
}

// Blobs is the shared cache of model files, named by digest.
func (h Home) Blobs() string { return filepath.Join(string(h), "cache", "blobs") }

// Ledger is the file of promised memory.
func (h Home) Ledger() string { return filepath.Join(string(h), "ledger.json") }

// Socket is the local API of a role's agent. The name is short and hashed, since a socket's path may have
// 104 bytes only; a home that is too deep gets a private folder in /tmp.
func (h Home) Socket(group string, role fleet.Role) (string, error) {
	path, _ := h.SocketPath(group, role)
	return path, privateDir(filepath.Dir(path))
}

// SocketPath is where Socket is, with nothing made; outside says that this is not in the home.
func (h Home) SocketPath(group string, role fleet.Role) (path string, outside bool) {
	return h.SocketPathOf(os.Getuid(), group, role)
}

// SocketPathOf is SocketPath for an agent that runs as that user.
func (h Home) SocketPathOf(user int, group string, role fleet.Role) (path string, outside bool) {
	sum := sha256.Sum256([]byte(string(h) + "\x00" + group + "\x00" + string(role)))
	return ownersocket.PathOf(user, filepath.Join(string(h), "run"), hex.EncodeToString(sum[:6]), "nightshift")
}

// BarSocket is where the menu-bar app of this home listens, by the group and role that Socket takes: a
// modelId has a dash, so no agent has the same.
func BarSocket() (group string, role fleet.Role) { return "nightshift", "bar" }

// privateDir makes a folder for this user alone, and refuses one that is not.
func privateDir(dir string) error {
	err := ownersocket.Private(dir)
	var refused *ownersocket.RefusedError
	if errors.As(err, &refused) {
		return fault.Wrap(err, fault.Invalid, "%s %s", refused.Path, refused.What).WithHint("%s", refused.Fix)
	}
	return err
}
