package releases

import (
	"io"
	"strings"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
	"interlock.sh/installer"
)

// program is one released file.
type program struct {
	build.Target
	digest string
	size   int64
}

// catalog is what the live targets say. A nil one is empty.
type catalog struct {
	programs []program
	targets  map[string]string // path with the digest in it → digest
}

func (c *catalog) target(path string) (string, bool) {
	if c == nil {
		return "", false
	}
	digest, ok := c.targets[path]
	return digest, ok
}

// newest lists the files of the version of a program that a new machine installs: the highest one that
// is not withdrawn and that every machine of the stable channel may have.
func (c *catalog) newest(name string) []program {
	if c == nil {
		return nil
	}
	var out []program
	for _, p := range c.programs {
		if p.Program != name || p.Yanked != "" || p.Channels[build.Stable] < 100 {
			continue
		}
		if len(out) > 0 && build.Compare(p.Version, out[0].Version) > 0 {
			out = nil
		}
		if len(out) == 0 || p.Version == out[0].Version {
			out = append(out, p)
		}
	}
	return out
}

// plainName is the name that the install script and people know a file by, below /assets/.
func plainName(t build.Target) string {
	if t.Arch == build.Universal {
		return t.Program + "-macos-" + t.Arch + ".zip"
	}
	return t.File()
}

// Manifest is the manifest of interlock for the install script. ok is false while nothing is released to
// everybody.
func (m *Mirror) Manifest() (installer.Manifest, bool) {
	return manifestOf(m.live.Load().newest(build.Interlock), "")
}

func manifestOf(programs []program, system string) (installer.Manifest, bool) {
	out := installer.Manifest{Schema: installer.ManifestSchema, Platforms: map[string]installer.Build{}}
	for _, p := range programs {
		if system == "" || p.OS == system {
			out.Version = p.Version
			out.Platforms[p.Platform()] = installer.Build{File: plainName(p.Target), SHA256: p.digest, Size: p.size}
		}
	}
	return out, len(out.Platforms) > 0
}

// pointers are the release pointers of the menu-bar app, which has versions of its own.
var pointers = map[string]string{installer.PointerName: "linux", "nightshift-macos.json": "darwin"}

// Pointer is the release pointer of that name: the manifest of the menu-bar app for one system. ok is
// false for another name, and while nothing is released.
func (m *Mirror) Pointer(name string) (installer.Manifest, bool) {
	system, ok := pointers[name]
	if !ok {
		return installer.Manifest{}, false
	}
	return manifestOf(m.live.Load().newest(build.Nightshift), system)
}

// Asset opens a released program by its plain name. known is false for a name that no released program
// has: then it is another asset of the control plane.
func (m *Mirror) Asset(name string) (f io.ReadSeekCloser, known bool, err error) {
	for _, of := range build.Programs() {
		for _, p := range m.live.Load().newest(of) {
			if plainName(p.Target) == name {
				f, _, err := m.o.Blobs.Open(p.digest)
				return f, true, err
			}
		}
	}
	if m.releases(name) {
		return nil, true, fault.New(fault.NotFound, "no build for %s is released", strings.TrimPrefix(name, build.Interlock+"-")).
			WithHint("/model-worker/manifest.json lists the platforms; build and release this one, or install by hand")
	}
	return nil, false, nil
}

// releases reports whether a name is a program of which something is released: a file of that name from
// elsewhere would be of another version than the manifest says.
func (m *Mirror) releases(name string) bool {
	for _, program := range build.Programs() {
		if len(m.live.Load().newest(program)) == 0 {
			continue
		}
		for _, platform := range build.Platforms(program) {
			os, arch, _ := strings.Cut(platform, "-")
			if plainName(build.Target{Program: program, OS: os, Arch: arch}) == name {
				return true
			}
		}
	}
	return false
}
