package servertasks

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"interlock.sh/fault"
	"interlock.sh/server/store"
	"interlock.sh/tasks"
)

// Sizes of a page.
const (
	DefaultPage = 50
	MaxPage     = 500
)

// maxAnswer is about how many bytes of payload one answer carries; what is left comes with the next.
const maxAnswer = 4 << 20

// Filter narrows List; zero fields do not.
type Filter struct {
	State  tasks.State
	Type   string
	Before string // tasks.List.Next of the page before
	Limit  int    // default DefaultPage, at most MaxPage
}

// Get reads one task with its input.
func (s *Service) Get(ctx context.Context, project, id string) (tasks.View, error) {
	q := s.db.Reader(ctx)
	t, err := taskIn(q, project, id)
	if err != nil {
		return tasks.View{}, wrap("get task", err)
	}
	v, err := t.view()
	if err == nil {
		v.Input, err = inputOf(q, id)
	}
	return v, wrap("get task", err)
}

// List reads a page of tasks, newest first. To stay small it carries neither inputs nor results.
func (s *Service) List(ctx context.Context, project string, f Filter) (tasks.List, error) {
	limit, err := pageSize(f.Limit, DefaultPage)
	if err != nil {
		return tasks.List{}, err
	}
	query := "SELECT " + strings.Replace(taskColumns, "result,", "'',", 1) + " FROM tasks WHERE project = $1"
	args := []any{project}
	and := func(condition string, values ...any) {
		for _, v := range values {
			args = append(args, v)
			condition = strings.Replace(condition, "?", "$"+strconv.Itoa(len(args)), 1)
		}
		query += " AND " + condition
	}
	if f.State != "" {
		and("state = ?", f.State)
	}
	if f.Type != "" {
		and("type = ?", f.Type)
	}
	if f.Before != "" {
		seq, id, err := parseCursor(f.Before)
		if err != nil {
			return tasks.List{}, err
		}
		and("(seq, id) < (?, ?)", seq, id)
	}
	rows, err := s.db.Query(ctx, query+" ORDER BY seq DESC, id DESC LIMIT "+strconv.Itoa(limit+1), args...)
	found, err := store.All(rows, err, scanTask)
	if err != nil {
		return tasks.List{}, wrap("list tasks", err)
	}
	page := tasks.List{Tasks: []tasks.View{}}
	if len(found) > limit {
		found = found[:limit]
		page.Next = strconv.FormatInt(found[limit-1].seq, 36) + "." + found[limit-1].id
	}
	for _, t := range found {
		v, err := t.view()
		if err != nil {
			return tasks.List{}, wrap("list tasks", err)
		}
		page.Tasks = append(page.Tasks, v)
	}
	return page, nil
}

func parseCursor(text string) (seq int64, id string, err error) {
	head, id, ok := strings.Cut(text, ".")
	seq, perr := strconv.ParseInt(head, 36, 64)
	if !ok || perr != nil {
		return 0, "", fault.New(fault.Invalid, "before is %q, which no page of this list gave", text).WithField("before").
			WithHint("pass the field next of the page before, or nothing")
	}
	return seq, id, nil
}

func pageSize(asked, standard int) (int, error) {
	switch {
	case asked == 0:
		return standard, nil
	case asked < 0 || asked > MaxPage:
		return 0, fault.New(fault.Invalid, "limit is %d; it goes from 1 to %d", asked, MaxPage).WithField("limit")
	}
	return asked, nil
}

// Journal reads entries after a cursor, in order. A limit of 0 is MaxPage. A page with much data is
// shorter; the journal is read to its end when a page is empty.
func (s *Service) Journal(ctx context.Context, project, id string, after int64, limit int) (tasks.Journal, error) {
	if after < 0 {
		return tasks.Journal{}, fault.New(fault.Invalid, "after is %d; a cursor is not negative", after).WithField("after")
	}
	limit, err := pageSize(limit, MaxPage)
	if err != nil {
		return tasks.Journal{}, err
	}
	q := s.db.Reader(ctx)
	// The state is read first: when it is terminal, the entries read after it are all there will be.
	t, err := taskIn(q, project, id)
	if err != nil {
		return tasks.Journal{}, wrap("read journal", err)
	}
	rows, err := q.Query(`SELECT seq, at, kind, attempt_id, data FROM journal WHERE task_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`, id, after, limit)
	entries, err := upTo(maxAnswer, rows, err)
	if err != nil {
		return tasks.Journal{}, wrap("read journal", err)
	}
	j := tasks.Journal{Entries: entries, Cursor: after, State: t.state}
	if len(entries) > 0 {
		j.Cursor = entries[len(entries)-1].Seq
	} else {
		j.Entries = []tasks.Entry{}
	}
	return j, nil
}

// upTo reads entries until their data passes a size, so that a page of long chunks stays an answer that
// a client takes.
func upTo(limit int, rows *store.Rows, err error) (entries []tasks.Entry, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err below has the error of reading; nothing was written
	for size := 0; size < limit && rows.Next(); {
		e, err := scanEntry(rows)
		if err != nil {
			return nil, err
		}
		size += len(e.Data)
		entries = append(entries, e)
	}
	return entries, rows.Err()
}

func scanEntry(row store.Scanner) (tasks.Entry, error) {
	var (
		e    tasks.Entry
		at   int64
		data string
	)
	err := row.Scan(&e.Seq, &at, &e.Kind, &e.AttemptID, &data)
	e.At, e.Data = whenOrZero(at), raw(data)
	return e, err
}

// Queued is how many tasks of one type and pool wait for a worker. Pass a Tx to bound a queue in the
// commit that adds to it.
func Queued(q store.Querier, project, typ string, version int, pool string) (int, error) {
	var n int
	err := q.QueryRow(`SELECT COUNT(*) FROM tasks WHERE project = $1 AND type = $2 AND schema_version = $3 AND pool = $4
		AND state = 'queued'`, project, typ, version, pool).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count queued tasks: %w", err)
	}
	return n, nil
}
