package store

import (
	"database/sql"
	"errors"
	"time"
)

// Lane is the urgency of an operation. An urgent lane goes first; a lane that waited for 50 ms gets
// its share of the next batch all the same.
type Lane int

// The lanes, most urgent first.
const (
	LaneRenew     Lane = iota // renewals of leases: late ones cost an attempt
	LaneFinish                // completions, failures and unknown outcomes of attempts
	LaneAdmit                 // cancels, claims, submits and administration
	LaneTelemetry             // logs, deltas, telemetry
	laneCount
)

// Tx is one operation inside a batch. It is valid until the function given to Write returns, and
// belongs to the goroutine that runs it.
type Tx struct {
	conn  session
	now   time.Time
	epoch uint64
	open  *Rows
	over  bool
}

// session is the engine's side of an operation.
type session interface {
	exec(query string, args ...any) (sql.Result, error)
	query(query string, args ...any) (*sql.Rows, error)
	lost() bool // the transaction does not stand any more
}

var (
	errRowsOpen = errors.New("the rows of the previous query are still open")
	errTxOver   = errors.New("the operation is over")
	errTxGone   = errors.New("the database gave up the transaction")
)

// Exec runs a statement that returns no rows.
func (tx *Tx) Exec(query string, args ...any) (sql.Result, error) {
	if err := tx.usable(); err != nil {
		return nil, err
	}
	return tx.conn.exec(query, args...)
}

// Query runs a statement that returns rows. Only one set of rows may be open at a time.
func (tx *Tx) Query(query string, args ...any) (*Rows, error) {
	if err := tx.usable(); err != nil {
		return nil, err
	}
	rows, err := tx.conn.query(query, args...)
	if err != nil {
		return nil, err
	}
	tx.open = &Rows{Rows: rows, done: func() { tx.open = nil }}
	return tx.open, nil
}

// QueryRow runs a statement and keeps its first row; Scan answers sql.ErrNoRows when there is none.
func (tx *Tx) QueryRow(query string, args ...any) *Row {
	rows, err := tx.Query(query, args...)
	return &Row{rows: rows, err: err}
}

// Now is the store's time of this operation: the same at each call.
func (tx *Tx) Now() time.Time { return tx.now }

// Epoch is the epoch that Now belongs to; see DB.Epoch.
func (tx *Tx) Epoch() uint64 { return tx.epoch }

func (tx *Tx) usable() error {
	switch {
	case tx.over:
		return errTxOver
	case tx.conn.lost():
		return errTxGone
	case tx.open != nil:
		return errRowsOpen
	}
	return nil
}

// end closes what the operation left open: open rows would hold the connection for ever.
func (tx *Tx) end() {
	tx.over = true
	if tx.open != nil {
		_ = tx.open.Close()
	}
}
