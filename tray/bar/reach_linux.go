package bar

import (
	"context"

	"fyne.io/systray"
	"github.com/godbus/dbus/v5"

	"interlock.sh/fault"
)

// reach connects to the session bus, which the library shares, and makes ctx end when the bus does: the
// library would wait for ever on a bus that is gone.
func reach(ctx context.Context) (context.Context, context.CancelFunc, error) {
	conn, err := dbus.SessionBus()
	if err != nil {
		return nil, nil, fault.Wrap(err, fault.Unavailable, "the session bus cannot be reached: %v", err).
			WithHint("start Nightshift from the desktop's menu, or with dbus-run-session")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(conn.Context(), func() {
		cancel(fault.New(fault.Unavailable, "the session bus has ended").WithHint("start Nightshift again in a desktop session"))
	})
	return ctx, func() { stop(); cancel(nil) }, nil
}

// name tells the panel what the item is called.
func name() { systray.SetTitle(title) }
