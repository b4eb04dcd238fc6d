package installer

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"interlock.sh/fault"
)

// ScriptName is the name that the install script is served under, below /assets/.
const ScriptName = "install-model-host.sh"

//go:embed install-model-host.sh
var script []byte

// Asset is one open file, ready for http.ServeContent. Whoever opened it closes it.
type Asset struct {
	io.ReadSeekCloser
	Name    string
	ModTime time.Time // zero for what is part of this program
	Size    int64
}

// OpenAsset opens what is served as /assets/{name}: an install script, or a regular file directly
// below dir (also the manifest). A name with a folder in it, a hidden file and a link do not exist; dir
// may be "" on a server that offers no builds. The error names a missing platform.
func OpenAsset(dir, name string) (*Asset, error) {
	if text, ok := scripts(name); ok {
		return &Asset{ReadSeekCloser: inMemory{bytes.NewReader(text)}, Name: name, Size: int64(len(text))}, nil
	}
	if !plainName.MatchString(name) {
		return nil, fault.New(fault.NotFound, "no asset is named %q", name)
	}
	if dir == "" {
		return nil, fault.New(fault.NotFound, "this server offers no builds, so there is no %s", name).
			WithHint("run make dist, then interlock serve --assets dist/assets, or install by hand")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, missing(name, err)
	}
	defer root.Close()
	info, err := root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, missing(name, err)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, missing(name, err)
	}
	return &Asset{ReadSeekCloser: f, Name: name, ModTime: info.ModTime(), Size: info.Size()}, nil
}

// scripts is the install script of a name.
func scripts(name string) ([]byte, bool) {
	switch name {
	case ScriptName:
		return script, true
	case HardwareScriptName:
		return hardwareScript, true
	}
	return nil, false
}

// missing is the error of an asset that could not be opened.
func missing(name string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open asset %s: %w", name, err)
	}
	if platform, ok := strings.CutPrefix(name, buildPrefix); ok {
		return fault.Wrap(err, fault.NotFound, "no build for %s in this server's assets", platform).
			WithHint("run make dist, or install by hand")
	}
	if name == ManifestName {
		return fault.Wrap(err, fault.NotFound, "no manifest in this server's assets").
			WithHint("run make dist, then interlock serve --assets dist/assets")
	}
	return fault.Wrap(err, fault.NotFound, "no asset is named %q", name)
}

// inMemory is a reader that has nothing to close.
type inMemory struct{ *bytes.Reader }

// Close does nothing.
func (inMemory) Close() error { return nil }
