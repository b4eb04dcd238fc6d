//go:build !cgo

package main

import (
	"context"

	"interlock.sh/fault"
	"interlock.sh/tray/desktop"
)

// showWindow refuses: the window is drawn through C.
func (p *program) showWindow(context.Context, desktop.Desktop) error {
	return fault.New(fault.Unavailable, "this build of Nightshift has no window").WithHint("build it with CGO_ENABLED=1 and -tags gles")
}
