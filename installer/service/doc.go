// Package service puts the programs of Interlock under the machine's own service manager: systemd as
// system units, launchd as daemons. It owns the names of the services, the text of their units and
// property lists, the plan of what a change would do, the one step that root does, and what the manager
// says of a service.
//
// It knows nothing of what the programs do, reads no credential and puts none anywhere: a unit has the
// name of a user, paths and options, nothing else. It never touches a file that it did not write.
//
// # The step of root
//
// A person's program makes a [Request]: which services of which home folder, as typed values. The same
// program, started once by sudo, pkexec or the system's own prompt, reads it from standard input, checks
// every value against a set of characters that leaves no room for a second line, finds out by itself who
// owns the home folder, renders the units and applies them ([Apply]). So no text of a unit ever crosses
// from a user to root. Whatever fails is undone before the step ends.
//
//	Request ──check──▶ units ──render──▶ files ──compare──▶ Plan ──apply──▶ manager
//
// # Logs
//
// A program keeps its own log in bounds; launchd, which has no journal, gets that one alone. In the journal
// a unit may write 1000 lines in 30 s (LogRateLimitBurst). A bound in bytes for one unit is not there:
// systemd has it for a log namespace only. That would be a second journald process, started for us on every
// machine, with a configuration file of ours in /etc/systemd; and its lines would be missing wherever people
// and monitoring look, since journalctl -u and the machine's log shipping read the common journal. How large
// that one grows is the machine's to say: SystemMaxUse= in journald.conf, 4 GB at most unless it says so.
package service
