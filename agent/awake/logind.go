package awake

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"

	"interlock.sh/agent/systembus"
)

const (
	who = "interlock"
	why = "a task runs"
)

// deniedError is a lock that this user may not take.
type deniedError struct {
	what string
	why  error
}

// Error says which lock, and the system's word.
func (e *deniedError) Error() string {
	return "logind refuses to block " + e.what + ": " + e.why.Error()
}

func isDenied(err error) bool {
	var d *deniedError
	return errors.As(err, &d)
}

// takeLogind takes the lock by the message bus. Who is no user of a session may often not block sleep
// itself; then the machine is at least kept from falling asleep on its own.
func takeLogind(ctx context.Context) (Lock, error) {
	sleep, err := inhibit(ctx, "sleep")
	if !isDenied(err) {
		return sleep, err
	}
	idle, errIdle := inhibit(ctx, "idle")
	if errIdle != nil {
		return Lock{}, err
	}
	idle.Less = err.Error() + "; it is kept from falling asleep by itself only"
	return idle, nil
}

// inhibit asks logind for one lock. The connection stays open with it: its end is how a bus that went
// away is noticed.
func inhibit(ctx context.Context, what string) (Lock, error) {
	conn, err := systembus.Join(ctx)
	if err != nil {
		return Lock{}, fmt.Errorf("reach the system's message bus: %w", err)
	}
	// Not a call under ctx: an answer that crosses its end would bring a lock that nobody closes.
	answer := make(chan *dbus.Call, 1)
	conn.Object("org.freedesktop.login1", "/org/freedesktop/login1").
		Go("org.freedesktop.login1.Manager.Inhibit", 0, answer, what, who, why, "block")
	var call *dbus.Call
	select {
	case call = <-answer:
	case <-ctx.Done():
		go refuse(conn, answer)
		return Lock{}, fmt.Errorf("logind does not answer: %w", context.Cause(ctx))
	}
	var fd dbus.UnixFD
	if err := call.Store(&fd); err != nil {
		_ = conn.Close()
		var refused dbus.Error
		if errors.As(err, &refused) && denied(refused.Name) {
			return Lock{}, &deniedError{what, err}
		}
		return Lock{}, fmt.Errorf("ask logind to block %s: %w", what, err)
	}
	file := os.NewFile(uintptr(fd), "inhibitor")
	return Lock{
		Lost: conn.Context().Done(),
		Release: sync.OnceFunc(func() {
			_ = file.Close() // this is what ends the lock
			_ = conn.Close()
		}),
	}, nil
}

// lateWithin is how long a lock that is not wanted any more may still come.
const lateWithin = time.Minute

// refuse gives back what comes too late. The end of the connection is an answer as well.
func refuse(conn *dbus.Conn, answer <-chan *dbus.Call) {
	bound := time.AfterFunc(lateWithin, func() { _ = conn.Close() })
	defer bound.Stop()
	call := <-answer
	var fd dbus.UnixFD
	if call.Store(&fd) == nil {
		_ = os.NewFile(uintptr(fd), "inhibitor").Close()
	}
	_ = conn.Close()
}

func denied(name string) bool {
	switch name {
	case "org.freedesktop.DBus.Error.AccessDenied", "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired":
		return true
	}
	return false
}
