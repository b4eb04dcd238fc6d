// Package server is the composition root of the control plane: it opens the store, builds the rooms
// over it, listens, and takes everything down in order. It holds no rules of tasks, fleets or runs.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"interlock.sh/fault"
	"interlock.sh/server/ai"
	"interlock.sh/server/api"
	"interlock.sh/server/auth"
	"interlock.sh/server/files"
	"interlock.sh/server/fleet"
	"interlock.sh/server/hints"
	"interlock.sh/server/releases"
	"interlock.sh/server/store"
	"interlock.sh/server/tasks"
)

const (
	streamGrace   = 2 * time.Second  // for streams and parked requests to end by themselves
	shutdownLimit = 20 * time.Second // for everything
)

// Run serves until ctx ends, then shuts down in order: no new work, streams and parked requests end,
// requests finish, loops stop, what is in memory is written, the store closes. It returns the first
// failure, nil after an orderly end.
func Run(ctx context.Context, c Config) (err error) {
	if err := c.normalize(); err != nil {
		return err
	}
	db, err := store.Open(ctx, store.Options{Dir: c.Data, Clock: c.Clock, Logger: c.Logger})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing(db.Close)) }()
	blobs, err := files.New(files.Options{Dir: filepath.Join(c.Data, "files"), Clock: c.Clock, Logger: c.Logger})
	if err != nil {
		return err
	}
	defer blobs.Close()
	tlsConfig, pin, err := c.tls()
	if err != nil {
		return err
	}
	certs, err := c.certifier()
	if err != nil {
		return err
	}
	if certs != nil {
		tlsConfig = certs.config()
	}
	listeners, err := listen(c.Listen)
	if err != nil {
		return err
	}
	plain, err := c.listenFront()
	if err != nil {
		closeAll(listeners)
		return err
	}
	if c.PublicURL == "" {
		c.PublicURL = baseURL(c.secure(), c.Listen, listeners[0].Addr())
	}
	p := build(c, db, blobs, pin)
	p.certs, p.plain = certs, plain
	if err := offerOwnerToken(ctx, c, p.auth); err != nil {
		if plain != nil {
			listeners = append(listeners, plain)
		}
		closeAll(listeners)
		return err
	}
	return p.serve(ctx, c, listeners, &http.Server{
		Handler: p.api, TLSConfig: tlsConfig, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug),
	})
}

// plane is a built control plane.
type plane struct {
	log    *slog.Logger
	auth   *auth.Service
	tasks  *servertasks.Service
	api    *api.API
	ready  atomic.Bool
	pin    string // of a self-signed server
	unused unused
	certs  *certifier   // nil without an ACME authority
	plain  net.Listener // nil unless callers on plain http are sent to https
	// chores are what is done now and then beside the requests.
	chores func(ctx context.Context) error
	// waits ends the waits of runs that are over.
	waits func(ctx context.Context) error
}

func build(c Config, db *store.DB, blobs *files.Store, pin string) *plane {
	hub := &hints.Hub{}
	p := &plane{log: c.Logger, auth: auth.New(db, hub), pin: pin}
	p.tasks = servertasks.New(servertasks.Options{DB: db, Clock: c.Clock, Logger: c.Logger, Lease: c.Lease, Hints: hub})
	fl := serverfleet.New(db, blobs, hub)
	runs := serverai.New(db, p.tasks, fl, blobs, hub)
	p.api = api.New(api.Info{
		Version: c.Version, PublicURL: c.PublicURL, Pin: pin, Assets: c.Assets, Clock: c.Clock, Logger: c.Logger,
		TrustedProxies: c.TrustedProxies, InsecureHTTP: c.InsecureHTTP && strings.HasPrefix(c.PublicURL, "http://"),
	}, api.Parts{
		Auth: p.auth, Tasks: p.tasks, Fleet: fl, AI: runs, Files: blobs, Hints: hub,
		Releases: releases.Open(releases.Options{Dir: filepath.Join(c.Data, "releases"), Blobs: blobs, Clock: c.Clock, Logger: c.Logger}),
		Meters:   api.NewMeters(), Ready: p.isReady,
	})
	p.chores = func(ctx context.Context) error { return chores(ctx, c, p.auth.Flush, blobs, runs) }
	p.waits = func(ctx context.Context) error { return endWaits(ctx, c, runs) }
	return p
}

func (p *plane) isReady(context.Context) error {
	if !p.ready.Load() {
		return fault.New(fault.Unavailable, "the control plane is starting or shutting down").WithHint("try again in a few seconds")
	}
	return nil
}

// serve answers requests until ctx ends or something fails, and then takes the plane down.
func (p *plane) serve(ctx context.Context, c Config, listeners []net.Listener, srv *http.Server) error {
	base, stopRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRequests()
	srv.ConnState = p.unused.note
	srv.BaseContext = func(net.Listener) context.Context { return base }
	group, gctx := errgroup.WithContext(ctx)
	for _, l := range listeners {
		group.Go(func() error { return serveOn(srv, l, c.secure()) })
	}
	stopFront := p.serveFront(gctx, c, group)
	stopAdmin := p.serveAdmin(c, group)
	group.Go(func() error { return ignoreEnd(gctx, p.tasks.Run(gctx)) })
	group.Go(func() error { return p.chores(gctx) })
	group.Go(func() error { return p.waits(gctx) })
	group.Go(func() error {
		<-gctx.Done()
		return errors.Join(stopFront(), stopAdmin(), p.shutDown(srv, stopRequests))
	})
	p.ready.Store(true)
	if c.Listening != nil {
		c.Listening(baseURL(c.secure(), c.Listen, listeners[0].Addr()), p.pin)
	}
	p.log.Info("serving", slog.String("listen", listeners[0].Addr().String()), slog.String("public", c.PublicURL))
	return group.Wait()
}

// serveFront obtains certificates and answers on plain http, as far as that was asked for.
func (p *plane) serveFront(ctx context.Context, c Config, group *errgroup.Group) (stop func() error) {
	var handler http.Handler
	if p.plain != nil {
		handler = front(c.PublicURL, p.certs) // before the first certificate is asked for: it allows the challenge
	}
	if p.certs != nil {
		group.Go(func() error { return p.certs.run(ctx) })
	}
	if p.plain == nil {
		return func() error { return nil }
	}
	srv := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
	}
	group.Go(func() error { return serveOn(srv, p.plain, false) })
	return srv.Close
}

// serveAdmin answers the admin socket. A folder that cannot hold a socket is no reason not to serve:
// `interlock admin owner-token` then asks to stop the server first.
func (p *plane) serveAdmin(c Config, group *errgroup.Group) (stop func() error) {
	l, err := listenAdmin(c.Data)
	if err != nil {
		p.log.Warn("no admin socket: interlock admin owner-token works only while the server is stopped", slog.Any("cause", err))
		return func() error { return nil }
	}
	srv := p.adminServer(c.Version)
	group.Go(func() error { return serveOn(srv, l, false) })
	return srv.Close
}

// shutDown ends what readers hold open, then lets the requests finish.
func (p *plane) shutDown(srv *http.Server, stopRequests func()) error {
	p.ready.Store(false)
	p.log.Info("shutting down")
	ctx, cancel := context.WithTimeout(context.Background(), shutdownLimit)
	defer cancel()
	p.api.Close()
	grace := time.AfterFunc(streamGrace, stopRequests)
	defer grace.Stop()
	p.unused.close()
	err := srv.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("requests did not end in %v: %w", shutdownLimit, err), srv.Close())
	}
	return errors.Join(err, p.tasks.Close(ctx), p.auth.Flush(ctx))
}

// serveOn answers on one listener until the server is shut down. Whether it speaks TLS is said from
// outside: serving plainly sets srv.TLSConfig too.
func serveOn(srv *http.Server, l net.Listener, secure bool) error {
	var err error
	if secure {
		err = srv.ServeTLS(l, "", "")
	} else {
		err = srv.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// ignoreEnd is nil for a loop that ended because it was told to.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func closing(fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownLimit)
	defer cancel()
	return fn(ctx)
}

// offerOwnerToken hands out the owner token of a first start, and never again.
func offerOwnerToken(ctx context.Context, c Config, a *auth.Service) error {
	token, err := a.FirstOwnerToken(ctx)
	if err == nil && token != "" && c.OwnerToken != nil {
		c.OwnerToken(token)
	}
	return err
}
