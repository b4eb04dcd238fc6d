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
	url := strings.TrimRight(s.URL, "/")
	var trust, more strings.Builder
	if s.Pin != "" {
		trust.WriteString("-k --pinnedpubkey " + always(s.Pin) + " ")
		more.WriteString(" --pin " + always(s.Pin))
	}
	if s.InsecureHTTP {
		more.WriteString(" --insecure-http")
	}
	return fmt.Sprintf("export INTERLOCK_MODEL_KEY=%s\n"+
		"curl -fsSL %s%s | sh -s -- \\\n"+
		"  --url %s --group %s --role %s%s\n"+
		"unset INTERLOCK_MODEL_KEY\n",
		always(s.Key), trust.String(), quote(url+"/assets/"+ScriptName),
		quote(url), quote(s.Group), quote(s.Role), more.String())
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
