// Package hardware is the worker of "Your hardware": it serves one model of a project on a machine that
// belongs to no fleet, with a task-worker key. It answers ai/chat@1 in the pool of the model's alias.
//
//	control plane ◀──claims, deltas, results── worker ──▶ own:     llama-server under supervise
//	                                                 └──▶ adopted: a server that the operator named
//
// It owns the folder ~/.interlock/task-worker with its settings, and what is true of the worker there:
//
//	env          (0600) the key, the control plane, which model; written by setup, edited by people
//	app/         the programs, which package updater keeps
//	logs/        worker.log, and the model server's own output
//	models/      weights that people put there
//	run/         what the running worker is: its state, its lock, its spool, its children
//
// A server that the operator named is asked and never signalled. The package knows no groups, machines,
// deployments or hours, installs no service, and must not import the server.
package hardware
