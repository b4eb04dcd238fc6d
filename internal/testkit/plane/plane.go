// Package plane starts a whole control plane for a test: the real composition on a real, migrated
// database in a folder of the test's, reached over HTTP by the typed client, on a clock that the test may
// hold. It also plays machines that enroll, serve a model and answer runs.
//
// It owns no behaviour of the product: whatever it does, it does through the API.
package plane

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"interlock.sh/access"
	"interlock.sh/client"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/testkit"
	"interlock.sh/server"
)

// Patience bounds every wait of this package.
const Patience = testkit.Patience

// Options vary a plane. The zero value is a plane on the machine's clock, with project "demo".
type Options struct {
	Clock  clock.Clock
	Data   string                // default a new folder of the test's
	Lease  time.Duration         // of an attempt; the usual one when 0
	Change func(*server.Config)  // anything else
	Client func(*client.Options) // anything else of its clients
}

// Plane is a control plane that runs. Its helpers fail the test instead of returning an error.
type Plane struct {
	URL     string
	Pin     string // of a self-signed server; the clients have it
	Data    string
	Project string
	Token   string         // of the account "owner"
	Owner   *client.Client // the account, in Project

	t      testing.TB
	o      Options
	cancel context.CancelFunc
	ended  chan error
}

// Start runs a control plane until the test ends, signs its owner in and makes the project "demo".
func Start(t testing.TB, o Options) *Plane {
	t.Helper()
	p := &Plane{t: t, o: o, Data: o.Data, Project: "demo"}
	if p.Data == "" {
		p.Data = filepath.Join(t.TempDir(), "data")
	}
	t.Cleanup(func() {
		if p.cancel != nil {
			p.Stop()
		}
	})
	secret := p.run()
	login, err := p.Client("").Login(t.Context(), access.LoginRequest{Token: secret})
	if err != nil {
		t.Fatal("sign in:", err)
	}
	p.Token = login.Token
	p.Owner = p.NewProject(p.Project)
	return p
}

// run starts the server and returns the owner token that it offered, "" at a later start.
func (p *Plane) run() string {
	p.t.Helper()
	bases, secret, pinned := make(chan string, 1), "", ""
	c := server.Config{Data: p.Data, Listen: "127.0.0.1:0", Version: "test", Clock: p.o.Clock, Lease: p.o.Lease, Logger: slog.New(slog.DiscardHandler)}
	if p.o.Change != nil {
		p.o.Change(&c)
	}
	c.OwnerToken = func(s string) { secret = s }
	c.Listening = func(base, pin string) { pinned = pin; bases <- base }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, c) }()
	select {
	case p.URL = <-bases:
	case err := <-ended:
		cancel()
		p.t.Fatal("the control plane did not start:", err)
	case <-time.After(Patience):
		cancel()
		p.t.Fatal("the control plane did not start in time")
	}
	p.Pin, p.cancel, p.ended = pinned, cancel, ended
	return secret
}

// Stop takes the control plane down in order and fails the test when that fails.
func (p *Plane) Stop() {
	p.t.Helper()
	p.cancel()
	p.cancel = nil
	select {
	case err := <-p.ended:
		if err != nil {
			p.t.Error("the control plane ended:", err)
		}
	case <-time.After(2 * Patience):
		p.t.Fatal("the control plane did not end in time")
	}
}

// Again starts a stopped control plane on the same data. Its address is another one; clients that were
// made before do not follow.
func (p *Plane) Again() {
	p.t.Helper()
	if secret := p.run(); secret != "" {
		p.t.Error("a second start offered an owner token")
	}
	p.Owner = p.Client(p.Token).WithProject(p.Project)
}

// Client is a client with a credential; "" sends none.
func (p *Plane) Client(credential string) *client.Client {
	p.t.Helper()
	o := client.Options{BaseURL: p.URL, Credential: credential, Pin: p.Pin}
	if p.o.Client != nil {
		p.o.Client(&o)
	}
	c, err := client.New(o)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(c.Close)
	return c
}

// NewProject makes a project of the owner's and gives the owner's client in it.
func (p *Plane) NewProject(id string) *client.Client {
	p.t.Helper()
	c := p.Client(p.Token)
	if _, err := c.NewProject(p.t.Context(), access.NewProjectRequest{ID: id}); err != nil {
		p.t.Fatal("make project:", err)
	}
	return c.WithProject(id)
}

// NewKey makes a key of the plane's project and returns its text.
func (p *Plane) NewKey(kind access.Kind) string {
	p.t.Helper()
	key, err := p.Owner.NewKey(p.t.Context(), p.Owner.Project(), access.NewKeyRequest{Kind: kind, Label: string(kind)})
	if err != nil {
		p.t.Fatal("make key:", err)
	}
	return key.Key
}

// Await polls until ok answers true. On a clock that stands still it is real time that passes.
func Await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
