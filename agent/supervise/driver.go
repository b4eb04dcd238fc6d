package supervise

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"strconv"
	"time"
)

// What a Driver's Ready may answer besides nil. Any other error means "not yet" and is asked again
// until the load deadline. Wrap them with what was seen: the text is shown to the owner.
var (
	// ErrLoading: the server answers that it is loading. It counts as progress.
	ErrLoading = errors.New("the model is loading")
	// ErrForeign: something answers on the port that does not know our key.
	ErrForeign = errors.New("another server answers on the port")
	// ErrUnusable: loaded, but not what was asked, and starting again would not change it.
	ErrUnusable = errors.New("the server is not what was asked for")
)

// Driver is what the supervisor must know of a model server. One Driver describes one wanted server;
// another version, model or argument is another Driver (see Child.Replace).
//
// Command is called from the child's own goroutine and must not block. The others may be called at the
// same time and must heed their context.
type Driver interface {
	// Command is how to start the server so that it listens at the endpoint and asks for its key.
	Command(at Endpoint) (Command, error)
	// Ready is one check that our server is loaded, verified and there: nil, one of the errors above,
	// or why not yet.
	Ready(ctx context.Context, at Endpoint) error
	// Alive is one check that the server still computes: the one-token probe.
	Alive(ctx context.Context, at Endpoint) error
	// CloseStreams ends the requests that we have open there. A server may wait for its clients for
	// ever, so this comes before the signals.
	CloseStreams(at Endpoint)
	// ParseError finds the reason of a failure in the last lines of the server's output; "" when they
	// have none.
	ParseError(tail []string) string
	// LoadDeadline is how long loading may take; it grows with the size of the model.
	LoadDeadline() time.Duration
}

// Command is a program to start. Env is added to the scrubbed environment of the agent.
type Command struct {
	Path string
	Args []string
	Env  []string
}

// fingerprint is the same for two commands that start the same server. It tells nothing of their secrets.
func (c Command) fingerprint() string {
	b, _ := json.Marshal([]any{c.Path, c.Args, c.Env}) // strings always encode
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Endpoint is where one start of a child listens. Port and key are new for each start.
type Endpoint struct {
	Port    int
	Key     string // never logged; also in KeyFile
	KeyFile string // 0600, holds the key on one line
}

// Host is the address of every endpoint: the literal, so that no resolver is asked.
const Host = "127.0.0.1"

// Addr is host and port.
func (e Endpoint) Addr() string { return net.JoinHostPort(Host, strconv.Itoa(e.Port)) }

// String is Addr: an endpoint that is printed or logged must not show its key.
func (e Endpoint) String() string { return e.Addr() }

// GoString is Addr, for the same reason.
func (e Endpoint) GoString() string { return e.Addr() }

// URL is the base of the server's HTTP interface, without a slash at the end.
func (e Endpoint) URL() string { return "http://" + e.Addr() }
