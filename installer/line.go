package installer

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// LineSpec is what a pasted line says.
type LineSpec struct {
	URL          string // the control plane's public address
	Group        string // name or id
	Role         string // client or trainer
	Key          string // the bootstrap key of that role
	Pin          string // sha256//BASE64 of a server with a certificate of its own making, or ""
	InsecureHTTP bool   // URL is http to another machine, by the operator's choice
}

// PastedLine is the block to paste into a terminal of the machine that is to be enrolled. The key is in
// the environment of two commands and in the arguments of none.
func PastedLine(s LineSpec) string {
	return pasted{
		env: "INTERLOCK_MODEL_KEY", key: s.Key, script: ScriptName, url: s.URL, pin: s.Pin, insecure: s.InsecureHTTP,
		before: "\\\n  ", args: " --group " + quote(s.Group) + " --role " + quote(s.Role),
	}.text()
}

// pasted is a block that runs a script of the control plane with a key in its environment.
type pasted struct {
	env, key string
	script   string // name below /assets/
	url, pin string
	insecure bool
	before   string // before the first argument
	args     string // after the address
}

func (p pasted) text() string {
	url := strings.TrimRight(p.url, "/")
	trust, args := "", "--url "+quote(url)+p.args
	if p.pin != "" {
		trust = "-k --pinnedpubkey " + always(p.pin) + " "
		args += " --pin " + always(p.pin)
	}
	if p.insecure {
		args += " --insecure-http"
	}
	return fmt.Sprintf("export %s=%s\ncurl -fsSL %s%s | sh -s -- %s%s\nunset %s\n",
		p.env, always(p.key), trust, quote(url+"/assets/"+p.script), p.before, args, p.env)
}

var bare = regexp.MustCompile(`^[A-Za-z0-9._/:@%+,-]+$`)

// quote is a word that every sh reads as s, bare where that is the same.
func quote(s string) string {
	if bare.MatchString(s) {
		return s
	}
	return always(s)
}

// always is s in single quotes. Text that a terminal would act upon instead of passing it on (escape
// sequences, line ends, marks that turn the writing around) is spelled out for printf.
func always(s string) string {
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return spelled(s)
		}
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// spelled is s as a format of printf. The shell drops line ends at the end of s, where no name has one.
func spelled(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == ' ' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\%03o`, c)
		}
	}
	return `"$(printf '` + b.String() + `')"`
}
