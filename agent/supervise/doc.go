// Package supervise starts, watches and stops model servers as child processes.
//
//	          ┌────────────────────────── Retry, a new Driver ───────────────────────────┐
//	          ▼                                                                          │
//	stopped ─► starting ─► loading ─► probing ─► ready ◄─► unhealthy                     │
//	   ▲          ▲           │          │         │           │                         │
//	   │          │           └──────────┴────┬────┴───────────┘                         │
//	   │          │                           ▼ too slow, wedged, foreign, asked to      │
//	   │          └────── backoff ◄──────  stopping ──────► parked{reason} ──────────────┘
//	   └──────────────────────────────────────┘
//
// A child is ready only when it has loaded what was asked and answered a one-token probe. A child that
// ends by itself takes the way of one that was stopped as failed: backoff, and after several failures
// within a window parked, which only Retry or another Driver ends.
//
// The package owns processes: their groups, their leash (a child never outlives the agent), their
// record on disk, their output, their port and key. It must not know what it runs: a Driver says how
// to start the server and what its answers mean. It never signals a process that it did not start.
//
// An agent that replaces itself by exec hands its children over: they run on, and the next image of the
// program takes each over that it would start in the same way. A child that was taken over is loading
// until its checks and its probe have passed, like one that was started.
//
// One goroutine owns each child's state. What to do next is decided by machine, which does no I/O and
// acts through Effects.
package supervise
