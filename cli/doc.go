// Package cli is the command line of Interlock: one file for each noun, each verb a small function over
// the typed client. It owns flags, what people read, and exit codes.
//
// It keeps no state but the profile and the model project's file, speaks to the control plane through
// client alone (and to this machine's agent through its local API), and ends no process: Run returns the
// exit code. The control plane and the agent are programs of their own that a verb only starts.
package cli

// Version is this build's version; the linker sets it.
var Version = "0.1.0"
