package client

import (
	"context"
	"errors"
)

// Pace limits a download while it goes on.
type Pace interface {
	// Await returns when bytes may come at all.
	Await(ctx context.Context) error
	// Piece is how many of the next n bytes may be read at once; 0 when downloads have stopped: the
	// connection is given up, and Await is asked before the next one.
	Piece(n int) int
	// Spend returns when the time for n bytes that were read has passed.
	Spend(ctx context.Context, n int) error
}

// unpaced is the pace without a limit.
type unpaced struct{}

// Await returns at once.
func (unpaced) Await(context.Context) error      { return nil }
func (unpaced) Piece(n int) int                  { return n }
func (unpaced) Spend(context.Context, int) error { return nil }

// errHeld ends an answer that may not be read on now. It is no failure.
var errHeld = errors.New("downloads have stopped for now")
