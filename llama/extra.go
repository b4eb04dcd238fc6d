package llama

import (
	"strings"

	"interlock.sh/fault"
)

// The reasons for which an extra argument is refused.
const (
	byAgent   = "the agent chooses the address and the key"
	byRelease = "the release decides the model, its name, its context and its slots"
	offline   = "models come from the release, not from the network"
	reach     = "it would let callers of the model reach files, commands or other servers of the machine"
)

// refusedExtra are options that a deployment may not set, under every name they have had.
var refusedExtra = map[string]string{
	"--host": byAgent, "--port": byAgent, "--reuse-port": byAgent, "--api-prefix": byAgent,
	"--api-key": byAgent, "--api-key-file": byAgent, "--ssl-key-file": byAgent, "--ssl-cert-file": byAgent,

	"-m": byRelease, "--model": byRelease, "-a": byRelease, "--alias": byRelease,
	"-c": byRelease, "--ctx-size": byRelease, "-np": byRelease, "--parallel": byRelease,
	"--models-dir": byRelease, "--models-preset": byRelease, "--models-max": byRelease,
	"--models-autoload": byRelease,

	"-mu": offline, "--model-url": offline, "-dr": offline, "--docker-repo": offline,
	"-hf": offline, "-hfr": offline, "--hf-repo": offline, "-hff": offline, "--hf-file": offline,
	"-hft": offline, "--hf-token": offline, "-hfv": offline, "-hfrv": offline, "--hf-repo-v": offline,
	"-hffv": offline, "--hf-file-v": offline, "-hfd": offline, "-hfrd": offline, "--hf-repo-draft": offline,
	"--spec-draft-hf": offline, "-mmu": offline, "--mmproj-url": offline,

	"--path": reach, "--media-path": reach, "--slot-save-path": reach, "--log-file": reach,
	"--log-prompts-dir": reach, "--tools": reach, "--tools-runtime": reach, "--agent": reach, "-ag": reach,
	"--mcp-servers-config": reach, "--mcp-servers-json": reach, "--ui-mcp-proxy": reach,
	"--webui-mcp-proxy": reach, "--rpc": reach, "--props": reach,
}

// CheckExtra refuses extra arguments that would change what is not theirs to change. Both spellings of
// an option count: "--port 1" and "--port=1".
func CheckExtra(extra []string) error {
	for _, arg := range extra {
		name, _, _ := strings.Cut(arg, "=")
		// llama-server takes "_" for "-" in long names.
		if strings.HasPrefix(name, "--") {
			name = "--" + strings.ReplaceAll(name[2:], "_", "-")
		}
		why, refused := refusedExtra[name]
		if !refused && isPreset(name) {
			why, refused = offline, true
		}
		if refused {
			return fault.New(fault.Invalid, "the argument %s cannot be set: %s", name, why).
				WithField("args").WithHint("leave it out")
		}
	}
	return nil
}

// isPreset says that an option stands for a model that llama.cpp downloads, e.g. --gpt-oss-20b-default
// or --fim-qwen-7b-spec. Their names change with every build, so they are known by their shape.
func isPreset(name string) bool {
	if !strings.HasPrefix(name, "--") || name == "--spec-default" {
		return false
	}
	return strings.HasSuffix(name, "-default") || strings.HasSuffix(name, "-spec")
}
