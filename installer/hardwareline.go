package installer

import _ "embed"

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
	return pasted{
		env: "INTERLOCK_TASK_WORKER_KEY", key: s.Key, script: HardwareScriptName, url: s.URL, pin: s.Pin, insecure: s.InsecureHTTP,
	}.text()
}
