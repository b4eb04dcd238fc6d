package installer

import (
	_ "embed"
	"fmt"
	"strings"
)

// HardwareScriptName is the name that the installer of "Your hardware" is served under, below /assets/.
const HardwareScriptName = "setup.sh"

//go:embed setup.sh
var hardwareScript []byte

// HardwareLineSpec is what the pasted line of "Your hardware" says.
type HardwareLineSpec struct {
	URL          string // the control plane's public address
	Key          string // a task-worker key
	Pin          string // sha256//BASE64 of a server with a certificate of its own making, or ""
	InsecureHTTP bool   // URL is http to another machine, by the operator's choice
}

// HardwareLine is the block to paste into a terminal of the machine that is to serve a model. The key is
// in the environment of two commands and in the arguments of none.
func HardwareLine(s HardwareLineSpec) string {
	url := strings.TrimRight(s.URL, "/")
	var trust, more strings.Builder
	if s.Pin != "" {
		trust.WriteString("-k --pinnedpubkey " + always(s.Pin) + " ")
		more.WriteString(" --pin " + always(s.Pin))
	}
	if s.InsecureHTTP {
		more.WriteString(" --insecure-http")
	}
	return fmt.Sprintf("export INTERLOCK_TASK_WORKER_KEY=%s\n"+
		"curl -fsSL %s%s | sh -s -- --url %s%s\n"+
		"unset INTERLOCK_TASK_WORKER_KEY\n",
		always(s.Key), trust.String(), quote(url+"/assets/"+HardwareScriptName), quote(url), more.String())
}
