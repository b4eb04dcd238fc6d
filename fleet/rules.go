package fleet

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"interlock.sh/fault"
)

// Limits of a release and its settings.
const (
	DefaultContext = 4096
	MaxContext     = 1 << 20
	MaxSlots       = 64
	MaxFiles       = 256
	MaxArgs        = 64
	MaxName        = 120
)

var (
	digestPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)
	aliasPattern  = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,79}$`)
)

// CheckDigest refuses what is no SHA-256 in 64 lower-case hex digits.
func CheckDigest(field, v string) error {
	if !digestPattern.MatchString(v) {
		return fault.New(fault.Invalid, "%s %q is no SHA-256 of 64 lower-case hex digits", field, v).WithField(field)
	}
	return nil
}

// CheckAlias refuses an alias or channel name that is not lower-case [a-z0-9._-], 1 to 80 characters.
func CheckAlias(field, v string) error {
	if !aliasPattern.MatchString(v) {
		return fault.New(fault.Invalid, "%s %q is not 1 to 80 characters of [a-z0-9._-] beginning with a letter or digit", field, v).
			WithField(field).WithHint("for example qwen3-6-35b-a3b")
	}
	return nil
}

// CheckName refuses a label that is empty, too long or has control characters. Any Unicode is fine.
func CheckName(field, v string) error {
	switch {
	case strings.TrimSpace(v) == "":
		return fault.New(fault.Invalid, "%s is empty", field).WithField(field)
	case utf8.RuneCountInString(v) > MaxName:
		return fault.New(fault.Invalid, "%s has %d characters; the limit is %d", field, utf8.RuneCountInString(v), MaxName).WithField(field)
	case !utf8.ValidString(v) || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fault.New(fault.Invalid, "%s has control characters or is not UTF-8", field).WithField(field)
	}
	return nil
}

// CheckFileName refuses a release's file name that is not one plain name: no folder, no traversal.
func CheckFileName(field, v string) error {
	if err := CheckName(field, v); err != nil {
		return err
	}
	if v == "." || v == ".." || strings.ContainsAny(v, `/\:`) || strings.HasPrefix(v, "-") {
		return fault.New(fault.Invalid, "%s %q is not a plain file name", field, v).
			WithField(field).WithHint("no folder, no leading hyphen, none of / \\ :")
	}
	return nil
}

// Normalize fills in the defaults of a release and refuses what breaks a rule.
func (r *NewReleaseRequest) Normalize() error {
	if err := CheckName("name", r.Name); err != nil {
		return err
	}
	if r.Runtime == "" {
		r.Runtime = LlamaCpp
	}
	if !r.Runtime.Valid() {
		return fault.New(fault.Invalid, "runtime %q is neither %s nor %s", r.Runtime, LlamaCpp, MLXLM).WithField("runtime")
	}
	if r.ContextLength == 0 {
		r.ContextLength = DefaultContext
	}
	if r.Slots == 0 {
		r.Slots = 1
	}
	if err := checkShape("", r.ContextLength, r.Slots, r.Args); err != nil {
		return err
	}
	if strings.TrimSpace(r.License) == "" {
		return fault.New(fault.Invalid, "license is empty; people read this note before they install the weights").
			WithField("license").WithHint("for example Apache-2.0, or the model's own terms")
	}
	if len(r.Files) == 0 || len(r.Files) > MaxFiles {
		return fault.New(fault.Invalid, "a release has 1 to %d files, this one %d", MaxFiles, len(r.Files)).WithField("files")
	}
	seen := map[string]bool{}
	for _, f := range r.Files {
		if err := CheckFileName("files.name", f.Name); err != nil {
			return err
		}
		if err := CheckDigest("files.sha256", f.SHA256); err != nil {
			return err
		}
		if f.Size <= 0 {
			return fault.New(fault.Invalid, "file %s has size %d; a size is positive", f.Name, f.Size).WithField("files.size")
		}
		if key := strings.ToLower(f.Name); seen[key] {
			return fault.New(fault.Invalid, "two files are named %s", f.Name).WithField("files.name")
		} else {
			seen[key] = true
		}
	}
	return nil
}

func checkShape(at string, ctx, slots int, args []string) error {
	switch {
	case ctx < 1 || ctx > MaxContext:
		return fault.New(fault.Invalid, "contextLength is %d; it goes from 1 to %d", ctx, MaxContext).WithField(at + "contextLength")
	case slots < 1 || slots > MaxSlots:
		return fault.New(fault.Invalid, "slots is %d; it goes from 1 to %d", slots, MaxSlots).WithField(at + "slots")
	case len(args) > MaxArgs:
		return fault.New(fault.Invalid, "%d extra arguments; the limit is %d", len(args), MaxArgs).WithField(at + "args")
	}
	return nil
}
