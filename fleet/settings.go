package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"interlock.sh/fault"
)

// Settings tune a deployment without changing its weights. Zero means the release's or the server's
// own default.
type Settings struct {
	ContextLength int      `json:"contextLength,omitempty"`
	Slots         int      `json:"slots,omitempty"`
	Threads       int      `json:"threads,omitempty"`
	GPULayers     *int     `json:"gpuLayers,omitempty"`
	Args          []string `json:"args,omitempty"`
}

// Check refuses settings out of bounds.
func (s Settings) Check() error {
	if s.Threads < 0 || s.Threads > 1024 {
		return fault.New(fault.Invalid, "threads is %d; it goes from 0 to 1024", s.Threads).WithField("settings.threads")
	}
	if s.GPULayers != nil && (*s.GPULayers < 0 || *s.GPULayers > 10000) {
		return fault.New(fault.Invalid, "gpuLayers is %d; it goes from 0 to 10000", *s.GPULayers).WithField("settings.gpuLayers")
	}
	// Zero is the release's own; anything else is in bounds like a release's.
	ctx, slots := s.ContextLength, s.Slots
	if ctx == 0 {
		ctx = DefaultContext
	}
	if slots == 0 {
		slots = 1
	}
	return checkShape("settings.", ctx, slots, s.Args)
}

// SettingsChange is what a deploy request says of the settings: what is absent stays as it is, or the
// default of a new deployment. Zero, an empty list and gpuLayers -1 go back to the default.
type SettingsChange struct {
	ContextLength *int     `json:"contextLength,omitempty"`
	Slots         *int     `json:"slots,omitempty"`
	Threads       *int     `json:"threads,omitempty"`
	GPULayers     *int     `json:"gpuLayers,omitempty" doc:"-1 is the model server's own default"`
	Args          []string `json:"args,omitzero"`
}

// Apply is s with the change made.
func (c SettingsChange) Apply(s Settings) Settings {
	for to, v := range map[*int]*int{&s.ContextLength: c.ContextLength, &s.Slots: c.Slots, &s.Threads: c.Threads} {
		if v != nil {
			*to = *v
		}
	}
	if c.GPULayers != nil {
		s.GPULayers = c.GPULayers
		if *c.GPULayers == -1 {
			s.GPULayers = nil
		}
	}
	if c.Args != nil {
		s.Args = slices.Clone(c.Args)
	}
	return s
}

// Changes says how after differs from s, a line a setting: "threads 2 → 4". It is empty when both are
// the same.
func (s Settings) Changes(after Settings) []string {
	var out []string
	before, then := s.words(), after.words()
	for i, name := range []string{"context", "slots", "threads", "gpu-layers", "args"} {
		if before[i] != then[i] {
			out = append(out, fmt.Sprintf("%s %s → %s", name, before[i], then[i]))
		}
	}
	return out
}

func (s Settings) words() [5]string {
	number := func(n int) string {
		if n == 0 {
			return "default"
		}
		return strconv.Itoa(n)
	}
	layers, args := "default", "none"
	if s.GPULayers != nil {
		layers = strconv.Itoa(*s.GPULayers)
	}
	if len(s.Args) > 0 {
		args = strings.Join(s.Args, " ")
	}
	return [5]string{number(s.ContextLength), number(s.Slots), number(s.Threads), layers, args}
}
