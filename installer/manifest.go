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

const buildPrefix = "interlock-"

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
	m := Manifest{Schema: ManifestSchema, Version: version, Platforms: map[string]Build{}}
	for _, platform := range platforms {
		name := buildPrefix + platform
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
	if len(m.Platforms) == 0 {
		return Manifest{}, fault.New(fault.NotFound, "no build of interlock is in %s", dir).
			WithHint("make dist builds %s there", strings.Join(platforms, ", "))
	}
	return m, nil
}

// WriteManifest replaces the manifest of dir.
func WriteManifest(dir string, m Manifest) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return atomicfile.Write(filepath.Join(dir, ManifestName), append(text, '\n'), 0o644)
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
