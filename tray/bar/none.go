//go:build !linux && !(darwin && cgo)

package bar

import (
	"context"

	"interlock.sh/fault"
	"interlock.sh/tray"
)

// Bar stands in where the system's menu bar is reached through C and this build has none.
type Bar struct{}

// New makes the stand-in.
func New() *Bar { return &Bar{} }

// Run refuses.
func (*Bar) Run(context.Context, func()) error {
	return fault.New(fault.Unavailable, "this build has no menu bar").WithHint("build it with CGO_ENABLED=1 on this system")
}

// Clicks never gets a value.
func (*Bar) Clicks() <-chan tray.Action { return nil }

// Opened never gets a value.
func (*Bar) Opened() <-chan struct{} { return nil }

// Show shows nothing.
func (*Bar) Show([]tray.Item, tray.Mood, string) {}
