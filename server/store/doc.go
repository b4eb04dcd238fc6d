// Package store is the storage engine of the control plane: it opens the database of a data folder,
// migrates it, and runs the statements of the domain packages, which hold their own SQL.
//
// It owns the connections, the one writer, the schema versions and the store's clock. It must not
// know a resource: no table but its own meta table, no rule of tasks, machines or keys, and no
// authorization.
//
// # Writing
//
// On SQLite one goroutine owns the only connection that writes. DB.Write queues an operation in a
// Lane; whatever is queued when the writer is free becomes one transaction with a savepoint for each
// operation, so a hundred callers share one fsync. An answer, a refusal included, leaves only after
// COMMIT. An operation that fails or panics is undone alone. Where SQLite itself gives up the
// transaction (disk full, I/O error), the others are run again without the one that met it; so a
// function given to Write may run more than once, touches nothing but its Tx, and overwrites its own
// results. A failed COMMIT answers every operation in it with fault.Unknown.
//
// A context cancels an operation only while it is queued. Once its batch has begun, Write waits for
// the true outcome.
//
// # SQL
//
// One text with $1, $2 … serves both dialects where it can; DB.Dialect tells them apart where it
// cannot. Times are integers, milliseconds since 1970. A Tx has one statement open at a time, as a
// PostgreSQL connection has: close (or exhaust) the rows before the next statement. Rows that the
// outside sees by position need an explicit INTEGER PRIMARY KEY, since a snapshot may renumber
// implicit rowids. Deferred foreign keys fail at COMMIT and take a whole batch with them: avoid them.
//
// # Another engine
//
// DB is a struct over two things that an engine brings: a pool for reads and an unexported writer. A
// PostgreSQL engine is one more constructor that fills them in: its writer runs each operation in a
// transaction of its own and repeats it after a serialization failure, its Tx uses the database's
// clock for Now. Nothing outside this package changes.
package store
