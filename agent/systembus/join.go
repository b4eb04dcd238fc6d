// Package systembus joins the system's message bus under a deadline, for those who ask logind. It knows
// nothing of what is asked there.
package systembus

import (
	"context"

	"github.com/godbus/dbus/v5"
)

// Join joins the system's bus. The connection outlives ctx, which bounds the joining only.
func Join(ctx context.Context) (*dbus.Conn, error) {
	type joined struct {
		conn *dbus.Conn
		err  error
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan joined, 1)
	go func() {
		conn, err := dbus.ConnectSystemBus(dbus.WithContext(life))
		done <- joined{conn, err}
	}()
	select {
	case j := <-done:
		if j.err != nil {
			cancel()
			return nil, j.err
		}
		context.AfterFunc(j.conn.Context(), cancel)
		return j.conn, nil
	case <-ctx.Done():
		cancel()
		go func() { // a dial that hangs ends with its socket
			if j := <-done; j.err == nil {
				_ = j.conn.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}
