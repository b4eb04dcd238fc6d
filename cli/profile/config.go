package profile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"interlock.sh/fault"
	"interlock.sh/internal/atomicfile"
)

// fileName is where a profile stands below ~/.interlock.
func (n Name) fileName() string {
	if n == Local {
		return "local.json"
	}
	return "config.json"
}

// maxFile bounds what is read: a profile or a key is a few hundred bytes.
const maxFile = 64 << 10

// Config is the content of a profile file.
type Config struct {
	API          string `json:"api,omitempty"`
	Token        string `json:"token,omitempty"`
	Project      string `json:"project,omitempty"`
	Pin          string `json:"pin,omitempty"`
	Account      string `json:"account,omitempty"`
	InsecureHTTP bool   `json:"insecureHttp,omitempty"` // plain http off this machine was accepted at login
}

// server is where the profile's token belongs.
func (c Config) server() string { return firstOf(c.API, DefaultAPI) }

// Save writes a profile file, durably and readable by its owner alone.
func Save(path string, c Config) error {
	if path == "" {
		return fault.New(fault.Invalid, "there is no home folder to keep a profile in").WithHint("set HOME")
	}
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("encode profile %s: %w", path, err)
	}
	// A link into somebody's collection of dot files stays a link.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return saveFault(path, err)
	}
	if err := atomicfile.Write(path, append(data, '\n'), 0o600); err != nil {
		return saveFault(path, err)
	}
	return nil
}

func saveFault(path string, err error) error {
	return fault.Wrap(err, fault.Invalid, "cannot write profile %s: %v", path, err).
		WithHint("make %s a folder of yours that can be written", filepath.Dir(path))
}

// load reads a profile file; an absent one is a zero Config.
func load(path string) (Config, []string, error) {
	data, warnings, err := readSecret(path, "profile")
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, nil, nil
	}
	if err != nil {
		return Config{}, nil, err
	}
	var c Config
	if err := json.Unmarshal(data, &c); err != nil {
		return Config{}, nil, fault.Wrap(err, fault.Malformed, "profile %s is no valid JSON: %s", path, jsonProblem(err)).
			WithHint("mend it, or sign in again with `interlock login`, which replaces it")
	}
	return c, warnings, nil
}

// readSecret reads a file that holds a secret, and warns when others can read it too.
func readSecret(path, what string) (data []byte, warnings []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil, err
		}
		return nil, nil, fault.Wrap(err, fault.Invalid, "cannot read %s %s: %s", what, path, cause(err)).
			WithHint("make it yours and readable: chown it to you, then chmod 600 %s", path)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("look at %s %s: %w", what, path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fault.New(fault.Invalid, "%s %s is no file", what, path).WithHint("move it away")
	}
	if info.Size() > maxFile {
		return nil, nil, fault.New(fault.Invalid, "%s %s has %d bytes; the limit is %d", what, path, info.Size(), maxFile).
			WithHint("something else was written there: move it away")
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		warnings = append(warnings, fmt.Sprintf("%s %s has mode %04o, so others on this machine can read the secret in it (chmod 600 %s)",
			what, path, mode, path))
	}
	data, err = io.ReadAll(f)
	if err != nil {
		return nil, nil, fault.Wrap(err, fault.Invalid, "cannot read %s %s: %s", what, path, cause(err))
	}
	return data, warnings, nil
}

// jsonProblem says what is wrong with a document without repeating its bytes, which may be a secret.
func jsonProblem(err error) string {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf("it breaks off at byte %d", syntax.Offset)
	case errors.As(err, &typ):
		return fmt.Sprintf("field %q is a JSON %s", typ.Field, strings.Fields(typ.Value)[0])
	}
	return "it cannot be decoded"
}

func cause(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// SameServer tells whether two addresses name one server: scheme, host, port and path are equal, and
// the names of this machine are one host.
func SameServer(a, b string) bool {
	ka, ok1 := serverKey(a)
	kb, ok2 := serverKey(b)
	return ok1 && ok2 && ka == kb
}

func serverKey(raw string) (string, bool) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Host == "" {
		return "", false
	}
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if a, err := netip.ParseAddr(host); err == nil && a.Unmap().IsLoopback() {
		host = "localhost"
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + host + ":" + port + strings.TrimRight(u.Path, "/"), true
}

// Writable makes sure that Save(path, …) can succeed, before something that happens once is spent.
func Writable(path string) error {
	if path == "" {
		return Save(path, Config{})
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return saveFault(path, err)
	}
	probe, err := os.CreateTemp(filepath.Dir(path), ".probe-*")
	if err != nil {
		return saveFault(path, err)
	}
	name := probe.Name()
	if err := errors.Join(probe.Close(), os.Remove(name)); err != nil {
		return saveFault(path, err)
	}
	return nil
}
