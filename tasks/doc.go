// Package tasks is the vocabulary of durable tasks: states, the transition table, effect safety, and
// the wire types that producers and workers of every language speak. It does no I/O; server/tasks
// carries the table out against a database, worker and client speak the wire.
//
// # The state machine
//
// Drawn from the table Transitions, which the control plane executes:
//
//	             due                 claim              start
//	scheduled ────────▶ queued ───────────────▶ leased ─────────▶ running
//	    │                │  ▲                     │                  │
//	    │ cancel         │  └──── requeue ────────┴──────────────────┤  (retry, lost or returned
//	    │ expire         │ cancel, expire                            │   attempt that may repeat)
//	    ▼                ▼                                           ▼
//	cancelled, expired  cancelled, expired     succeeded, failed, cancelled, expired, outcome-unknown
//
// An attempt is leased until its worker's first report (renew, progress, log or delta) proves that it
// is running; it may also end straight from leased. The terminal states are succeeded, failed,
// cancelled, expired and outcome-unknown. The states waiting and quarantined are reserved; a client
// treats a state that it does not know as live.
//
// # Truth and hints
//
// The task row and its ordered journal are truth. Streams are hints to re-read them. Every report of a
// worker carries task, attempt, fence and lease token; one whose attempt was replaced is refused with
// STALE_ATTEMPT, which is final for that attempt.
package tasks
