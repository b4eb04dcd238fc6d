// Package worker carries durable tasks out: a Worker claims attempts from a control plane, runs their
// handlers and reports how they ended; a Producer hands tasks in and waits for them.
//
// It owns the worker's side of the contract: bounded concurrency, renewal of leases, the output
// stream's resending, retries of reports, and the completion spool. It must not know what handlers do,
// how the control plane stores tasks, or HTTP: it speaks through the small interface Transport, which
// *client.Client satisfies.
//
// # Claims
//
// Each pool has one claim in flight while it has a free slot, narrowed to that pool and to as many
// attempts as it has room for. So a slot that frees while the pool's poll is parked is already covered
// by it, pools never wait for each other, and no pool is ever given more than it can run. A parked
// claim is never broken off, since an attempt that was leased in the same moment would be lost with
// the answer; when a pool goes away, or the worker drains, the registration that says so makes the
// control plane answer the poll.
//
// # Leases
//
// One goroutine renews everything that is held, at a third of the lease, whatever the handlers do. A
// lease that could not be renewed in time by the worker's own monotonic clock counts as lost: the
// handler's context ends with ErrStale. What it still returns as a result is sent all the same, since
// the control plane takes it unless another attempt began. STALE_ATTEMPT, once answered, silences the
// attempt: nothing more of it is reported.
//
// # Handing back
//
// HandBack gives up what is in hand because the machine is wanted for something else: every attempt ends
// with a report, so that what may repeat is queued again at once, without counting, and what must not ends
// with an unknown outcome. An attempt whose handler never began says so and may run again in any case.
//
// # Ends
//
// How an attempt ended is written to the spool first, then sent, and removed from the spool when the
// control plane answered definitively. Completions that pile up behind one request share the next.
package worker
