package profile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"interlock.sh/fault"
)

// KeyFileName binds a folder, and for ordinary commands everything below it, to a project.
const KeyFileName = ".interlock-key"

const keyVersion = 1

type keyFile struct {
	path     string
	project  string
	api      string // empty in the legacy form, which does not say
	secret   string
	warnings []string
}

// findKey reads the nearest key file at dir or above it.
func findKey(dir string) (keyFile, bool, error) {
	for {
		path := filepath.Join(dir, KeyFileName)
		data, warnings, err := readSecret(path, "key file")
		switch {
		case err == nil:
			if err := ours(path); err != nil {
				return keyFile{}, false, err
			}
			k, err := parseKey(path, data)
			k.warnings = warnings
			return k, err == nil, err
		case !errors.Is(err, fs.ErrNotExist):
			return keyFile{}, false, err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return keyFile{}, false, nil
		}
		dir = parent
	}
}

// ours refuses a key file that another user put above our folder: whoever leaves one in a shared place
// would have our work go into a project of theirs.
func ours(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("look at key file %s: %w", path, err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !foreign(int(stat.Uid), os.Geteuid()) {
		return nil
	}
	return fault.New(fault.Invalid, "key file %s belongs to another user (uid %d)", path, stat.Uid).
		WithHint("make it yours if you trust it, work in another folder, or give the key by INTERLOCK_SDK_KEY")
}

// foreign tells whether a file of owner is none that self should obey. What root owns or reads is left
// alone: root may replace any file of ours, and containers run as root over files of their host.
func foreign(owner, self int) bool { return self != 0 && owner != 0 && owner != self }

// parseKey understands the versioned JSON document and the legacy form: the key alone, on one line.
func parseKey(path string, data []byte) (keyFile, error) {
	bad := func(format string, args ...any) (keyFile, error) {
		return keyFile{}, fault.New(fault.Malformed, "key file %s %s", path, fmt.Sprintf(format, args...)).
			WithHint("put the project's key back, or move the file away")
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return bad("is empty")
	}
	if !strings.HasPrefix(text, "{") {
		if strings.ContainsAny(text, " \t\r\n") {
			return bad("is neither the JSON document nor one line with a key")
		}
		return keyFile{path: path, secret: text}, nil
	}
	var doc struct {
		Version int    `json:"version"`
		Project string `json:"project"`
		API     string `json:"api"`
		Key     string `json:"key"`
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return bad("is no valid JSON: %s", jsonProblem(err))
	}
	if doc.Version != keyVersion {
		return bad("has version %d; this program reads version %d", doc.Version, keyVersion)
	}
	if strings.TrimSpace(doc.Key) == "" {
		return bad("has no key in its field %q", "key")
	}
	return keyFile{path: path, project: doc.Project, api: strings.TrimSpace(doc.API), secret: strings.TrimSpace(doc.Key)}, nil
}
