// Package servertasks carries the state machine of package tasks out against the store: it admits
// tasks, leases attempts to workers, takes their reports, ends what was lost or is late, and streams
// an attempt's output.
//
// It owns the tables tasks, task_inputs, attempts, journal and workers, the hubs that wake parked
// claims and event streams, and the memory of output streams that are not journalled yet. It never
// authorizes: a caller's project, and for a machine its identity and pools, are facts that the API
// layer hands in. It knows no HTTP and no AI run; who needs to act in the commit that ends a task
// registers a hook with OnEnd.
//
// # Moves
//
// Every move of a task is one guarded UPDATE (state, fence, lease-token hash, journal cursor; exactly
// one row) with its journal entries in the same commit, and only a move that tasks.Transitions lists
// can be made: see op.advance. The store's clock judges leases. A report of the newest attempt is
// taken as long as nothing replaced the attempt, even when its lease ran out a moment ago: what counts
// is the fence, and work that was done is not thrown away for a late packet.
//
// # Repeats
//
// A report whose answer was lost is sent again. When the task stands in a terminal state into which
// the very same attempt brought it by the same kind of report, the repeat gets the same answer, since
// that answer is the recorded outcome. Any other report of an attempt that is not the current one is
// STALE_ATTEMPT.
//
// # Hints
//
// Hints (parked claims, event streams) leave after the commit and may be lost; whoever waits also
// looks by itself now and then.
package servertasks
