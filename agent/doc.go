// Package agent is the host agent of one enrollment: it reads the machine's desired state from the
// control plane, brings model files and model servers to it, answers the work that comes, and reports.
// It only calls out; the one door into it is a unix socket for the machine's owner.
//
//	control plane ──desired state──▶ reconcile ──▶ serving (one a deployment)
//	      ▲                             ▲              │ files → memory → llama-server
//	      │ heartbeats                  │ owner's mode │
//	      └──────── report ◀────────────┴──────────────┤
//	                                                   ▼
//	control plane ◀──claims, deltas, results── worker ─┘
//
// What is wanted is level-triggered: reconcile looks at the whole document each time, so a lost hint or
// a restart costs nothing but a polling interval. The package supervises nothing itself (supervise
// does), knows no arguments of model servers (llama does), and must not import the server.
package agent
