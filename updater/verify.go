package updater

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
)

// Verified says what is known of the program that current names.
type Verified struct {
	Version string
	Signed  bool   // its bytes are those of a signed release
	Pinned  bool   // the root of trust was pinned on first use, not built in
	Detail  string // in words
}

// VerifyInstalled compares the program that current names, byte by byte, with the signed metadata that the
// app folder holds. It asks nobody, and expiry does not matter: what was signed stays signed. A program
// that no metadata knows yet is no error; one whose bytes are not those that were signed is.
func VerifyInstalled(app, program, goos, goarch string) (Verified, error) {
	f := folder(app)
	v := Verified{Version: f.target(linkCurrent)}
	if v.Version == "" {
		return v, fault.New(fault.NotFound, "%s names no version", filepath.Join(app, linkCurrent)).WithHint("run the install line again")
	}
	have, err := digest(f.program(v.Version, program))
	if err != nil {
		return v, fault.Wrap(err, fault.NotFound, "the program cannot be read: %v", err).WithHint("run the install line again")
	}
	v.Pinned = BuiltIn() == nil
	want, err := f.signed(build.Target{Program: program, Version: v.Version, OS: goos, Arch: goarch})
	if err != nil {
		return v, err
	}
	if want == nil {
		v.Detail = fmt.Sprintf("%s was installed by the install line and is not verified by a signed release yet", v.Version)
		return v, nil
	}
	if *want != have {
		return v, fault.New(fault.HashMismatch, "%s has SHA-256 %s; the release %s was signed with %s", f.program(v.Version, program), have.SHA256, v.Version, want.SHA256).
			WithHint("somebody or something changed it: interlock agent update --now --version %s brings the signed one back", v.Version)
	}
	v.Signed = true
	v.Detail = v.Version + " is signed, byte by byte"
	if v.Pinned {
		v.Detail += "; the root of trust was pinned when this machine was enrolled"
	}
	return v, nil
}

// signed is what the held metadata says of a target, else what was verified when it was staged; nil when
// neither knows it.
func (f folder) signed(t build.Target) (*installed, error) {
	_, root, err := f.root(BuiltIn())
	if errors.Is(err, errNoRoot) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(filepath.Join(f.accepted(), "targets.json"))
	if err == nil {
		targets, err := guarded(func() (*metadata.Metadata[metadata.TargetsType], error) { return metadata.Targets().FromBytes(b) })
		if err == nil && root.VerifyDelegate(metadata.TARGETS, targets) == nil {
			if file := targets.Signed.Targets[t.Path()]; file != nil {
				return &installed{SHA256: file.Hashes["sha256"].String(), Length: file.Length}, nil
			}
		}
	}
	st, err := f.peek()
	if err != nil {
		return nil, err
	}
	if was, ok := st.Installed[t.Version]; ok {
		return &was, nil
	}
	return nil, nil
}
