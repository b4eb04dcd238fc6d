// Package agent is the host agent of one enrollment: it reads the machine's desired state from the
// control plane, brings model files and model servers to it, answers the work that comes, and reports.
// It only calls out; the one door into it is a unix socket for the machine's owner.
//
//	control plane ──desired state──▶ reconcile ──▶ serving (one a deployment)
//	      ▲                             ▲              │ files → memory → llama-server
//	      │ heartbeats                  │ owner's hours│
//	      └──────── report ◀────────────┴──────────────┤
//	                                                   ▼
//	control plane ◀──claims, deltas, results── worker ─┘
//
// The owner's hours (fleet/schedule, kept in owner.json) are a ceiling: judge asks them at each look, at the
// moment at which the clock changes the answer, and after a sleep. When they end, work in hand has a grace
// and is handed back then; the models stop and their memory is free. While a task runs, awake keeps the
// machine from sleeping.
//
// What is wanted is level-triggered: reconcile looks at the whole document each time, so a lost hint or
// a restart costs nothing but a polling interval.
//
// An update changes the program and not the process: Restart finishes the work in hand, hands the model
// servers, the wanted document and the role's lock over, and executes the program that is current.
//
// The package supervises nothing itself (supervise does), knows no arguments of model servers (llama
// does), and must not import the server.
package agent
