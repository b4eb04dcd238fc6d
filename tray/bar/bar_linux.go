package bar

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/godbus/dbus/v5"

	"interlock.sh/fault"
	"interlock.sh/tray"
)

const (
	itemPath  dbus.ObjectPath = "/StatusNotifierItem"
	menuPath  dbus.ObjectPath = "/StatusNotifierItem/menu"
	itemFace                  = "org.kde.StatusNotifierItem"
	menuFace                  = "com.canonical.dbusmenu"
	watcher                   = "org.kde.StatusNotifierWatcher"
	propsFace                 = "org.freedesktop.DBus.Properties"
)

// Bar is an item in the bar.
type Bar struct {
	clicks chan tray.Action
	opened chan struct{}

	mu       sync.Mutex
	conn     *dbus.Conn // nil before Run
	root     *node
	nodes    map[int32]*node
	shown    []tray.Item
	lastID   int32
	revision uint32
	mood     tray.Mood
	picture  pixmap
	tip      string
}

// New makes the item; Run shows it.
func New() *Bar {
	b := &Bar{clicks: make(chan tray.Action, 16), opened: make(chan struct{}, 1), revision: 1}
	b.plant(nil)
	return b
}

// Clicks are the actions of what was clicked.
func (b *Bar) Clicks() <-chan tray.Action { return b.clicks }

// Opened gets a value when somebody opens the menu, where the panel tells.
func (b *Bar) Opened() <-chan struct{} { return b.opened }

// Run shows the item and stays until ctx ends, or the session does, which is an error. ready shows the first
// menu.
func (b *Bar) Run(ctx context.Context, ready func()) error {
	conn, err := dbus.ConnectSessionBus()
	if err != nil {
		return fault.Wrap(err, fault.Unavailable, "the session bus cannot be reached: %v", err).
			WithHint("start Nightshift from the desktop's menu, or with dbus-run-session")
	}
	defer conn.Close() //nolint:errcheck // the bus forgets us either way
	ready()
	calls, err := b.appear(conn)
	if err != nil {
		return fmt.Errorf("appear on the session bus: %w", err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case msg, there := <-calls:
			if !there {
				return fault.New(fault.Unavailable, "the session bus has ended").WithHint("start Nightshift again in a desktop session")
			}
			b.take(ctx, conn, msg)
		}
	}
}

// appear names the item on the bus and registers it with the panel that is there; panels that come later are
// heard of. From then on all messages come through the channel, in their order.
func (b *Bar) appear(conn *dbus.Conn) (<-chan *dbus.Message, error) {
	err := conn.AddMatchSignal(dbus.WithMatchSender("org.freedesktop.DBus"), dbus.WithMatchInterface("org.freedesktop.DBus"),
		dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, watcher))
	if err != nil {
		return nil, err
	}
	calls := make(chan *dbus.Message, 256)
	if _, err := conn.RequestName(fmt.Sprintf("%s-%d-1", itemFace, os.Getpid()), dbus.NameFlagDoNotQueue); err != nil {
		return nil, err
	}
	conn.Eavesdrop(calls)
	b.mu.Lock()
	b.conn = conn
	b.mu.Unlock()
	register(conn)
	return calls, nil
}

// register tells the panel of the item. No answer is wanted: without a panel there is none to give.
func register(conn *dbus.Conn) {
	conn.Object(watcher, "/StatusNotifierWatcher").Go(watcher+".RegisterStatusNotifierItem", dbus.FlagNoReplyExpected|dbus.FlagNoAutoStart, nil, string(itemPath))
}

// take handles one message of the bus.
func (b *Bar) take(ctx context.Context, conn *dbus.Conn, msg *dbus.Message) {
	switch msg.Type {
	case dbus.TypeSignal:
		// The only signal that is asked for: name, old owner, new owner.
		if owner, ok := last(msg.Body).(string); ok && owner != "" && msg.Headers[dbus.FieldMember].Value() == "NameOwnerChanged" {
			register(conn)
		}
	case dbus.TypeMethodCall:
		body, fails := b.serve(ctx, msg)
		if msg.Flags&dbus.FlagNoReplyExpected == 0 {
			answer(conn, msg, body, fails)
		}
	}
}

func last(body []any) any {
	if len(body) == 0 {
		return nil
	}
	return body[len(body)-1]
}

// answer replies to a call. It is called in the order of the calls, and a connection sends in the order in
// which it is called.
func answer(conn *dbus.Conn, to *dbus.Message, body []any, fails string) {
	reply := &dbus.Message{Type: dbus.TypeMethodReply, Body: body, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldDestination: to.Headers[dbus.FieldSender], dbus.FieldReplySerial: dbus.MakeVariant(to.Serial()),
	}}
	if fails != "" {
		reply.Type, reply.Body = dbus.TypeError, []any{fails}
		reply.Headers[dbus.FieldErrorName] = dbus.MakeVariant("org.freedesktop.DBus.Error.UnknownMethod")
	}
	if len(reply.Body) > 0 {
		reply.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(reply.Body...))
	}
	conn.Send(reply, nil)
}

// emit sends a signal; the lock is held. Before Run there is nobody to hear it.
func (b *Bar) emit(path dbus.ObjectPath, name string, body ...any) {
	if b.conn != nil {
		_ = b.conn.Emit(path, name, body...) // a connection that is gone ends Run
	}
}
