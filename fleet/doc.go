// Package fleet is the vocabulary of model fleets: groups, releases, deployments, channels, machines,
// the desired state of a machine and what a machine reports. It does no I/O; server/fleet keeps the
// records, agent carries the desired state out.
//
// A group is the unit of operation, not a laptop. A release is an immutable set of files with the
// arguments to run them; a deployment gives a release an alias that names exact weights and is never
// given to others; a channel is a name that points at a deployment and may be pointed elsewhere.
package fleet
