package store

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"interlock.sh/fault"
)

// run brings every operation of a batch to its answer.
func (w *groupWriter) run(batch []*op) {
	var dropped []*op // had a transaction rolled back under them
	for len(batch) > 0 {
		broke := w.attempt(batch)
		if broke == nil {
			break
		}
		dropped = append(dropped, broke)
		batch = without(batch, broke)
	}
	for _, o := range append(batch, dropped...) {
		o.done <- o.err
	}
}

// attempt runs a batch as one transaction and sets each operation's answer. When SQLite gave up the
// transaction it returns the operation that met it: nothing of the batch has happened then, and the
// others have to run again.
func (w *groupWriter) attempt(batch []*op) (broke *op) {
	if err := w.conn.begin(); err != nil {
		fail(batch, classify(fmt.Errorf("begin: %w", err), w.path))
		return nil
	}
	for _, o := range batch {
		w.running = o
		o.err = w.runOne(o)
		if w.conn.gone {
			return o
		}
	}
	mark, err := w.stamp()
	if err != nil {
		w.conn.abort()
		fail(batch, classify(fmt.Errorf("keep the clock: %w", err), w.path))
		return nil
	}
	if err := w.conn.commit(); err != nil {
		fail(batch, unknownFault(w.path, err))
		return nil
	}
	w.mark = mark
	return nil
}

func fail(batch []*op, err error) {
	for _, o := range batch {
		o.err = err
	}
}

// runOne runs one operation in its savepoint. When the transaction does not stand afterwards,
// conn.gone is set and the error is never nil.
func (w *groupWriter) runOne(o *op) error {
	if _, err := w.conn.exec("SAVEPOINT op"); err != nil {
		w.conn.abort()
		return classify(fmt.Errorf("savepoint: %w", err), w.path)
	}
	now, epoch := w.clock.read()
	tx := &Tx{conn: w.conn, now: now, epoch: epoch}
	err := call(o.fn, tx)
	if err == nil && w.conn.gone {
		err = errTxGone
	}
	if !w.conn.gone {
		if rerr := w.endSavepoint(err != nil); rerr != nil {
			w.conn.abort()
			err = errors.Join(err, rerr)
		}
	}
	return classify(err, w.path)
}

func (w *groupWriter) endSavepoint(undo bool) error {
	if undo {
		if _, err := w.conn.exec("ROLLBACK TO op"); err != nil {
			return fmt.Errorf("undo the operation: %w", err)
		}
	}
	if _, err := w.conn.exec("RELEASE op"); err != nil {
		return fmt.Errorf("end the operation: %w", err)
	}
	return nil
}

// call runs fn, contains its panic and closes what it left open.
func call(fn func(*Tx) error, tx *Tx) (err error) {
	defer tx.end()
	defer func() {
		if v := recover(); v != nil {
			err = fault.Wrap(fmt.Errorf("panic: %v\n%s", v, debug.Stack()), fault.Internal, "internal error").
				WithHint("the server's log has the cause")
		}
	}()
	return fn(tx)
}

// stamp keeps the clock's high-water mark at or above every time that an operation of this
// transaction may have stored. It returns the mark that is durable once this transaction is.
func (w *groupWriter) stamp() (time.Time, error) {
	now, _ := w.clock.read()
	if !now.After(w.mark) {
		return w.mark, nil
	}
	mark := now.Add(markStep)
	_, err := w.conn.exec(lastMark, mark.UnixMilli())
	return mark, err
}

// finish leaves the exact time as the mark, so that an orderly restart starts at the wall clock, and
// closes the connection, which empties the write-ahead log into the database.
func (w *groupWriter) finish() error {
	now, _ := w.clock.read()
	err := w.conn.begin()
	if err == nil {
		if _, err = w.conn.exec(lastMark, now.UnixMilli()); err == nil {
			err = w.conn.commit()
		}
		w.conn.abort()
	}
	return errors.Join(err, w.conn.close())
}
