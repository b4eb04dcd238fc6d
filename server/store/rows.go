package store

import "database/sql"

// Scanner is one row, as sql.Rows, Rows and Row offer it.
type Scanner interface {
	Scan(dest ...any) error
}

// Querier reads: a Tx, or DB.Reader.
type Querier interface {
	Query(query string, args ...any) (*Rows, error)
	QueryRow(query string, args ...any) *Row
}

// Rows are sql.Rows that tell their Tx when they are done.
type Rows struct {
	*sql.Rows
	done func()
}

// Next prepares the next row; the rows are closed when there is none.
func (r *Rows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.finish()
	return false
}

// Close ends the reading; it may be called more than once.
func (r *Rows) Close() error {
	r.finish()
	return r.Rows.Close()
}

func (r *Rows) finish() {
	if r.done != nil {
		r.done()
		r.done = nil
	}
}

// Row is the first row of a query.
type Row struct {
	rows *Rows
	err  error
}

// Scan copies the row's columns and closes it; sql.ErrNoRows when there is no row.
func (r *Row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	_, err := One(r.rows, nil, func(s Scanner) (struct{}, error) { return struct{}{}, s.Scan(dest...) })
	return err
}

// All scans every row and closes them. It takes what Query returned, its error too:
//
//	rows, err := tx.Query("SELECT id, name FROM machines")
//	machines, err := store.All(rows, err, scanMachine)
func All[T any](rows *Rows, err error, scan func(Scanner) (T, error)) ([]T, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err below has the error of reading; nothing was written
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// One scans the first row and closes the rows; sql.ErrNoRows when there is none.
func One[T any](rows *Rows, err error, scan func(Scanner) (T, error)) (one T, _ error) {
	if err != nil {
		return one, err
	}
	defer rows.Close() //nolint:errcheck // Err below has the error of reading; nothing was written
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return one, err
		}
		return one, sql.ErrNoRows
	}
	if one, err = scan(rows); err != nil {
		return one, err
	}
	return one, rows.Close()
}
