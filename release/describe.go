package release

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
	"interlock.sh/internal/atomicfile"
)

const (
	descriptionName   = "release.json"
	descriptionSchema = 1

	// MaxProgram bounds one program; the largest of ours is a tenth of it.
	MaxProgram = 512 << 20
)

// Description is a release as it was built: which files, and which bytes they were.
type Description struct {
	Schema  int    `json:"schema"`
	Version string `json:"version"`
	Files   []File `json:"files"`
}

// File is one program of a release. Name stands in the folder of the description.
type File struct {
	Program string `json:"program"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Name    string `json:"name"`
	SHA256  string `json:"sha256"`
	Size    int64  `json:"size"`
}

// programFile is <program>-<os>-<arch>, with the longest program first.
var programFile = regexp.MustCompile(`^(interlock-tui|interlock|nightshift)-([a-z0-9]+)-([a-z0-9_]+)(\.zip)?$`)

// Describe looks for programs in a folder and says what they are. It refuses a file that is named like a
// program of an unknown platform, and one whose first bytes are of another platform than its name says.
func Describe(dir, version string) (Description, error) {
	if err := build.CheckVersion(version); err != nil {
		return Description{}, err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return Description{}, fault.Wrap(err, fault.NotFound, "cannot read the folder of programs %s: %v", dir, err).WithHint("make dist builds them into dist/assets")
	}
	d := Description{Schema: descriptionSchema, Version: version}
	for _, f := range files {
		m := programFile.FindStringSubmatch(f.Name())
		if m == nil {
			continue
		}
		file := File{Program: m[1], OS: m[2], Arch: m[3], Name: f.Name()}
		if file.OS == "macos" { // how the bundle for macOS is named for people
			file.OS = "darwin"
		}
		if err := file.target(version).Check(); err != nil {
			return Description{}, fault.Wrap(err, fault.Invalid, "%s: %v", f.Name(), err).WithHint("remove it, or give it the name of what it is")
		}
		if file.SHA256, file.Size, err = inspect(filepath.Join(dir, f.Name()), file); err != nil {
			return Description{}, err
		}
		d.Files = append(d.Files, file)
	}
	if len(d.Files) == 0 {
		return Description{}, fault.New(fault.NotFound, "no program is in %s", dir).
			WithHint("files named <program>-<os>-<arch>, as in interlock-linux-amd64; make dist builds them into dist/assets")
	}
	return d, nil
}

// Save writes the description beside its programs and returns its path.
func (d Description) Save(dir string) (string, error) {
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encode description: %w", err)
	}
	path := filepath.Join(dir, descriptionName)
	return path, atomicfile.Write(path, append(text, '\n'), 0o644)
}

// ReadDescription reads and checks a description; path may be its folder.
func ReadDescription(path string) (d Description, dir string, err error) {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		path = filepath.Join(path, descriptionName)
	}
	text, err := readBounded(path, 1<<20)
	if err != nil {
		return d, "", fault.Wrap(err, fault.NotFound, "cannot read the release %s: %v", path, err).WithHint("make it: interlock release build --dist <folder> --version <version>")
	}
	if err := json.Unmarshal(text, &d); err != nil || d.Schema != descriptionSchema {
		return d, "", fault.New(fault.Invalid, "%s is no release of schema %d", path, descriptionSchema)
	}
	if len(d.Files) == 0 {
		return d, "", fault.New(fault.Invalid, "%s names no files", path).WithField("files")
	}
	for i, f := range d.Files {
		if err := f.check(d.Version); err != nil {
			return d, "", fault.Wrap(err, fault.Invalid, "%s: file %d: %v", path, i+1, err).WithField(fmt.Sprintf("files[%d]", i))
		}
	}
	return d, filepath.Dir(path), nil
}

func (f File) check(version string) error {
	if err := f.target(version).Check(); err != nil {
		return err
	}
	if f.Name != filepath.Base(f.Name) || strings.ContainsAny(f.Name, `/\`) || !programFile.MatchString(f.Name) {
		return fault.New(fault.Invalid, "%.80q is no plain file name of a program: a release's files stand beside its description", f.Name).WithField("name")
	}
	if f.Size < 1 || f.Size > MaxProgram {
		return tooLarge(f.Name, f.Size)
	}
	if b, err := hex.DecodeString(f.SHA256); err != nil || len(b) != sha256.Size {
		return fault.New(fault.Invalid, "%.80q is no SHA-256 of 64 hex digits", f.SHA256).WithField("sha256")
	}
	return nil
}

// target is the file as it will be offered, on no channel yet.
func (f File) target(version string) build.Target {
	return build.Target{Program: f.Program, Version: version, OS: f.OS, Arch: f.Arch}
}

func tooLarge(name string, size int64) error {
	return fault.New(fault.TooLarge, "%s has %d bytes; a program has 1 to %d", name, size, MaxProgram).WithField("size").With("limit", MaxProgram).With("size", size)
}

// inspect hashes a program and checks what platform its first bytes are of.
func inspect(path string, f File) (digest string, size int64, err error) {
	if st, err := os.Lstat(path); err != nil || !st.Mode().IsRegular() {
		return "", 0, errors.Join(err, fault.New(fault.Invalid, "%s is no regular file", path))
	}
	in, err := os.Open(path)
	if err != nil {
		return "", 0, fmt.Errorf("read program: %w", err)
	}
	defer in.Close()
	head := make([]byte, 20)
	if n, err := io.ReadFull(in, head); err != nil {
		return "", 0, fault.Wrap(err, fault.Invalid, "%s has %d bytes: that is no program", f.Name, n).WithField("size")
	}
	if is := platformOf(head); is != f.OS+"-"+f.Arch {
		return "", 0, fault.New(fault.Invalid, "%s is a program for %s, not for %s-%s", f.Name, is, f.OS, f.Arch).WithHint("build it again, or name it for what it is")
	}
	h := sha256.New()
	h.Write(head)
	size, err = io.Copy(h, io.LimitReader(in, MaxProgram+1))
	size += int64(len(head))
	if err != nil {
		return "", 0, fmt.Errorf("read program: %w", err)
	}
	if size > MaxProgram {
		return "", 0, tooLarge(f.Name, size)
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}

// platformOf reads the platform of a program from the header that its system loads it by.
func platformOf(head []byte) string {
	arches := map[uint32]string{0x3e: "amd64", 0xb7: "arm64", 0x01000007: "amd64", 0x0100000c: "arm64"}
	system, machine := "", uint32(0)
	switch {
	case bytes.HasPrefix(head, []byte("\x7fELF\x02\x01")):
		system, machine = "linux", uint32(binary.LittleEndian.Uint16(head[18:]))
	case bytes.HasPrefix(head, []byte{0xcf, 0xfa, 0xed, 0xfe}):
		system, machine = "darwin", binary.LittleEndian.Uint32(head[4:])
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return "darwin-" + build.Universal // a bundle travels as an archive
	}
	if arch := arches[machine]; arch != "" {
		return system + "-" + arch
	}
	return "an unknown system"
}

// Summary names the programs with their platforms, for people.
func (d Description) Summary() []string {
	by := map[string][]string{}
	for _, f := range d.Files {
		by[f.Program] = append(by[f.Program], f.OS+"-"+f.Arch)
	}
	var out []string
	for program, platforms := range by {
		slices.Sort(platforms)
		out = append(out, program+" "+d.Version+" for "+strings.Join(platforms, ", "))
	}
	slices.Sort(out)
	return out
}
