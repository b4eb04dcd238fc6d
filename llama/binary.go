package llama

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"time"

	"interlock.sh/fault"
)

// Binary is a llama-server on this machine and what it said about itself.
type Binary struct {
	Path    string
	Version string   // as it names itself, e.g. "6123 (a1b2c3d)"; to show, never to decide by
	Build   int      // the number in the version; 0 when it names none
	Flags   Flags    // the options of its --help
	GPUs    []string // devices other than the CPU, e.g. "CUDA0: NVIDIA GeForce RTX 4090"; empty means CPU only
	// DevicesKnown is false when the build cannot list its devices; GPUs then says nothing.
	DevicesKnown bool
}

// Flags is a set of option names, dashes included.
type Flags map[string]bool

// Has says whether the option is known under that name.
func (f Flags) Has(name string) bool { return f[name] }

// CPUOnly says that the build is known to compute on the CPU alone.
func (b Binary) CPUOnly() bool { return b.DevicesKnown && len(b.GPUs) == 0 }

// required are the options without which a release cannot be served as asked.
var required = [...]string{"--host", "--port", "--model", "--ctx-size", "--parallel", "--alias"}

// MissingFlags are the options that this package needs and the build does not know, sorted.
func (b Binary) MissingFlags() []string {
	var missing []string
	for _, f := range required {
		if !b.Flags.Has(f) {
			missing = append(missing, f)
		}
	}
	sort.Strings(missing)
	return missing
}

// Check is an error that names the missing options and the way out, or nil.
func (b Binary) Check() error {
	missing := b.MissingFlags()
	if len(missing) == 0 {
		return nil
	}
	return fault.New(fault.Conflict, "llama-server at %s (version %s) does not know %s, which serving a release needs",
		b.Path, b.Version, strings.Join(missing, ", ")).WithHint("update llama.cpp: %s", installLine(runtime.GOOS))
}

// EnvServer is the environment variable that names the llama-server to use.
const EnvServer = "LLAMA_SERVER"

// describeDeadline bounds each question to the program: a build with GPU drivers may take seconds to
// list its devices, and one that hangs must not hang the agent.
const describeDeadline = 15 * time.Second

// Find looks for llama-server in the order: the setting (a path, or empty), LLAMA_SERVER, PATH, and
// the folders that Homebrew and packages install to, which a service's PATH often lacks. The first one
// that is there is asked for its version, options and devices.
//
// A missing one is a fault.NotFound whose message starts with "llama-server not found"; one that is
// there but does not run is a fault.Unavailable that says how it ended.
func Find(ctx context.Context, setting string) (Binary, error) {
	path, err := finder{
		env:      os.Getenv(EnvServer),
		lookPath: exec.LookPath,
		prefixes: []string{"/opt/homebrew/bin", "/usr/local/bin", "/home/linuxbrew/.linuxbrew/bin", "/usr/bin"},
		goos:     runtime.GOOS,
	}.find(setting)
	if err != nil {
		return Binary{}, err
	}
	return describe(ctx, path)
}

// finder is the search with its surroundings as fields.
type finder struct {
	env      string
	lookPath func(string) (string, error)
	prefixes []string
	goos     string
}

func (f finder) find(setting string) (string, error) {
	for _, named := range []struct{ path, by string }{{setting, "the setting"}, {f.env, EnvServer}} {
		if named.path == "" {
			continue
		}
		if err := executable(named.path); err != nil {
			return "", fault.Wrap(err, fault.NotFound, "llama-server not found: %s names %s: %v", named.by, named.path, err).
				WithHint("correct %s or remove it to search PATH", named.by)
		}
		return filepath.Abs(named.path)
	}
	if path, err := f.lookPath("llama-server"); err == nil {
		return filepath.Abs(path)
	}
	for _, dir := range f.prefixes {
		if path := filepath.Join(dir, "llama-server"); executable(path) == nil {
			return path, nil
		}
	}
	return "", fault.New(fault.NotFound, "llama-server not found in PATH, %s", strings.Join(f.prefixes, ", ")).
		WithHint("install it: %s; or name it with %s", installLine(f.goos), EnvServer)
}

// installLine is what to type to get llama-server on a system.
func installLine(goos string) string {
	if goos == "darwin" {
		return "brew install llama.cpp"
	}
	return "brew install llama.cpp, or unpack the Linux build of a llama.cpp release and put its bin folder into PATH"
}

func executable(path string) error {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errors.New("no such file")
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return errors.New("it is no file")
	case st.Mode().Perm()&0o111 == 0:
		return errors.New("it is not executable")
	}
	return nil
}

// describe asks the program about itself.
func describe(ctx context.Context, path string) (Binary, error) {
	b := Binary{Path: path}
	version, err := ask(ctx, path, "--version")
	if err != nil {
		return b, err
	}
	b.Version, b.Build = parseVersion(version)
	help, err := ask(ctx, path, "--help")
	if err != nil {
		return b, err
	}
	b.Flags = parseFlags(help)
	if b.Flags.Has("--list-devices") {
		// A driver that fails here must not keep the CPU from serving: then nothing is known.
		if devices, err := ask(ctx, path, "--list-devices"); err == nil {
			b.GPUs, b.DevicesKnown = parseDevices(devices)
		}
	}
	return b, nil
}

// ask runs the program with one argument and gives what it printed on both outputs.
func ask(ctx context.Context, path, arg string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, describeDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, arg)
	cmd.Env = cleanEnv(os.Environ())
	cmd.WaitDelay = time.Second
	out := &capped{max: 1 << 20}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	if err == nil {
		return out.String(), nil
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("no answer within %s", describeDeadline)
	}
	said := lastLine(out.String())
	if said != "" {
		said = ": " + said
	}
	return "", fault.Wrap(err, fault.Unavailable, "llama-server at %s does not run: %s %v%s", path, arg, err, said).
		WithHint("a build for another processor ends with \"illegal instruction\"; try: %s", installLine(runtime.GOOS))
}
