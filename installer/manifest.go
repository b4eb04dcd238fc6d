package installer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"interlock.sh/fault"
	"interlock.sh/internal/atomicfile"
)

// ManifestName is the manifest's file name in the assets folder; it is served as
// /model-worker/manifest.json.
const ManifestName = "manifest.json"

// ManifestSchema is the schema of a Manifest.
const ManifestSchema = 1

const (
	buildPrefix = "interlock-"
	uiPrefix    = "nightshift-"
)

// PointerName is the release pointer of the menu-bar app for Linux, served below /assets/. It is a Manifest
// of that app alone, which has versions of its own.
const PointerName = "nightshift-linux.json"

// platforms are the systems that interlock is built for, as GOOS-GOARCH.
var platforms = []string{"darwin-amd64", "darwin-arm64", "linux-amd64", "linux-arm64"}

// Manifest says which builds a control plane offers. The install script reads it without a JSON
// library, so every string in it stays within letters, digits and "._+-".
type Manifest struct {
	Schema    int              `json:"schema"` // 1
	Version   string           `json:"version"`
	Platforms map[string]Build `json:"platforms"` // by GOOS-GOARCH
}

// Build is one file of the assets folder.
type Build struct {
	File   string `json:"file"`
	SHA256 string `json:"sha256"` // lower-case hex
	Size   int64  `json:"size"`   // bytes
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_+][A-Za-z0-9._+-]*$`)

// BuildManifest reads the builds of interlock in dir. It refuses a version that could not be a folder
// name and a folder without any build; a platform that is not there is left out.
func BuildManifest(dir, version string) (Manifest, error) {
	if !plainName.MatchString(version) {
		return Manifest{}, fault.New(fault.Invalid, "version %q is no plain name", version).
			WithHint("letters, digits and ._+- only, beginning with a letter or a digit")
	}
	m, err := manifestOf(dir, version, buildPrefix)
	if err == nil && len(m.Platforms) == 0 {
		err = fault.New(fault.NotFound, "no build of interlock is in %s", dir).
			WithHint("make dist builds %s there", strings.Join(platforms, ", "))
	}
	return m, err
}

func manifestOf(dir, version, prefix string) (Manifest, error) {
	m := Manifest{Schema: ManifestSchema, Version: version, Platforms: map[string]Build{}}
	for _, platform := range platforms {
		name := prefix + platform
		build, err := describe(filepath.Join(dir, name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return Manifest{}, fmt.Errorf("build manifest: %w", err)
		}
		build.File = name
		m.Platforms[platform] = build
	}
	return m, nil
}

// WriteManifest replaces the manifest of dir, and the pointer to the menu-bar app when builds of it are there.
func WriteManifest(dir string, m Manifest) error {
	ui, err := manifestOf(dir, m.Version, uiPrefix)
	if err != nil {
		return err
	}
	if len(ui.Platforms) > 0 {
		if err := writeManifest(filepath.Join(dir, PointerName), ui); err != nil {
			return err
		}
	} else if err := os.Remove(filepath.Join(dir, PointerName)); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("remove the pointer to an app that is gone: %w", err)
	}
	return writeManifest(filepath.Join(dir, ManifestName), m)
}

func writeManifest(path string, m Manifest) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return atomicfile.Write(path, append(text, '\n'), 0o644)
}

func describe(path string) (Build, error) {
	f, err := os.Open(path)
	if err != nil {
		return Build{}, err
	}
	defer f.Close()
	h := sha256.New()
	size, err := io.Copy(h, f)
	if err != nil {
		return Build{}, fmt.Errorf("read %s: %w", path, err)
	}
	return Build{SHA256: hex.EncodeToString(h.Sum(nil)), Size: size}, nil
}
