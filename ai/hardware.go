package ai

import "strings"

// A worker of "Your hardware" serves a model by its alias, in a pool of that alias: no deployment stands
// behind it, and a run that goes there names the pool where others name their deployment.
const hardwarePool = "model:"

// HardwarePool is the pool of a model that task workers serve.
func HardwarePool(alias string) string { return hardwarePool + alias }

// HardwareAlias is the model of a pool that HardwarePool made; false for every other pool and for the id
// of a deployment.
func HardwareAlias(pool string) (alias string, ok bool) { return strings.CutPrefix(pool, hardwarePool) }

// Profile is a model whose exact weights an alias stands for, wherever it is served.
type Profile struct {
	Alias   string // names weights and quantisation
	Route   string // what its runs are billed under
	Source  string // where the weights come from
	File    string // what the weights' file is called there
	License string // of the weights; people read it before they install them
	Bytes   int64  // of the weights, about
}

// Profiles are the models that Interlock knows by name.
func Profiles() []Profile {
	return []Profile{{
		Alias: "qwen3-6-35b-a3b", Route: "ai.self-hosted.qwen3.6-35b-a3b",
		Source: "unsloth/Qwen3.6-35B-A3B-GGUF", File: "Qwen3.6-35B-A3B-Q8_0.gguf", License: "Apache-2.0", Bytes: 38e9,
	}}
}

// ProfileOf is the profile of an alias.
func ProfileOf(alias string) (Profile, bool) {
	for _, p := range Profiles() {
		if p.Alias == alias {
			return p, true
		}
	}
	return Profile{}, false
}

// Route is the billed route of a model of one's own by its alias.
func Route(alias string) string {
	if p, ok := ProfileOf(alias); ok {
		return p.Route
	}
	return "ai.self-hosted." + alias
}
