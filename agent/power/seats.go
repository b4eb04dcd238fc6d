package power

import (
	"context"
	"time"

	"github.com/godbus/dbus/v5"

	"interlock.sh/agent/systembus"
)

const (
	login = "org.freedesktop.login1"
	// nobody is how long a seat without a session has been idle: nobody sits there.
	nobody = 365 * 24 * time.Hour
)

// seats asks logind for the shortest idleness of all seats. Not the login manager's own hint: that one
// counts our lock against sleep as use.
func seats(ctx context.Context, now time.Time) *time.Duration {
	conn, err := systembus.Join(ctx)
	if err != nil {
		return nil
	}
	defer conn.Close() //nolint:errcheck // nothing was written
	var all []struct {
		Name string
		Path dbus.ObjectPath
	}
	if err := conn.Object(login, "/org/freedesktop/login1").CallWithContext(ctx, login+".Manager.ListSeats", 0).Store(&all); err != nil {
		return nil
	}
	least := time.Duration(nobody)
	for _, s := range all {
		seat := conn.Object(login, s.Path)
		hint, since := false, uint64(0)
		if property(ctx, seat, "IdleHint", &hint) != nil || property(ctx, seat, "IdleSinceHint", &since) != nil {
			return nil
		}
		switch {
		case !hint:
			return new(time.Duration(0))
		case since != 0:
			least = min(least, max(0, now.Sub(time.UnixMicro(int64(since)))))
		}
	}
	return &least
}

func property(ctx context.Context, seat dbus.BusObject, name string, into any) error {
	return seat.CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, login+".Seat", name).Store(into)
}
