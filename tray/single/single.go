// Package single keeps one app a user and home: the first one holds a lock and listens, each later one
// tells it what it was started for and leaves. It knows nothing of what is told.
package single

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"interlock.sh/fault"
	"interlock.sh/internal/ownersocket"
)

// ErrRunning says that another one holds the lock; it is told things by Tell.
var ErrRunning = errors.New("another one runs already")

const (
	answerIn = 2 * time.Second
	longest  = 1 << 10 // bytes of a message
)

// Instance is the one that runs.
type Instance struct {
	lock     *flock.Flock
	listener net.Listener
	told     chan string
	ended    chan struct{}
}

// Acquire takes the lock beside the socket and listens there; ErrRunning when it is taken. A socket that a
// killed one left behind is replaced, since the lock says that nobody listens there.
func Acquire(socket string) (*Instance, error) {
	lock := flock.New(socket+".lock", flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	got, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", lock.Path(), err)
	}
	if !got {
		return nil, ErrRunning
	}
	l, err := ownersocket.Listen(socket)
	if err != nil {
		return nil, errors.Join(refused(err), lock.Unlock())
	}
	i := &Instance{lock: lock, listener: l, told: make(chan string), ended: make(chan struct{})}
	go i.serve()
	return i, nil
}

// Told are the messages of later ones. A message that nobody takes is answered as such.
func (i *Instance) Told() <-chan string { return i.told }

// Close lets another one run.
func (i *Instance) Close() error {
	err := i.listener.Close()
	<-i.ended
	return errors.Join(err, i.lock.Unlock())
}

func (i *Instance) serve() {
	defer close(i.ended)
	for {
		c, err := i.listener.Accept()
		if err != nil {
			return // closed
		}
		i.hear(c)
	}
}

// hear takes one message. One after the other is enough: they are rare and short.
func (i *Instance) hear(c net.Conn) {
	defer c.Close() //nolint:errcheck // said all
	if c.SetDeadline(time.Now().Add(answerIn)) != nil {
		return
	}
	text, err := bufio.NewReader(io.LimitReader(c, longest)).ReadString('\n')
	if err != nil {
		return
	}
	select {
	case i.told <- strings.TrimSuffix(text, "\n"):
		_, _ = io.WriteString(c, "ok\n") // who asked may be gone
	case <-time.After(answerIn / 2):
	}
}

// Tell gives the running one a message, a single line.
func Tell(ctx context.Context, socket, message string) error {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	c, err := ownersocket.Dial(ctx, socket)
	if err != nil {
		return notHeard(refused(err))
	}
	defer c.Close() //nolint:errcheck // read only from here
	if end, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(end); err != nil {
			return notHeard(err)
		}
	}
	if _, err := fmt.Fprintln(c, strings.ReplaceAll(message, "\n", " ")); err != nil {
		return notHeard(err)
	}
	if text, err := bufio.NewReader(c).ReadString('\n'); err != nil || text != "ok\n" {
		return notHeard(err)
	}
	return nil
}

// refused words what is no socket of this user's.
func refused(err error) error {
	var r *ownersocket.RefusedError
	if errors.As(err, &r) {
		return fault.Wrap(err, fault.Conflict, "%s %s", r.Path, r.What).WithHint("%s", r.Fix)
	}
	return err
}

func notHeard(err error) error {
	if errors.Is(err, fault.Conflict) {
		return err
	}
	return fault.Wrap(err, fault.Unavailable, "Nightshift runs already and does not answer").WithHint("end it and start it again")
}
