// Package cli is the command line of Interlock: one file for each noun, each verb a small function over
// the typed client. It owns flags, what people read, and exit codes.
//
// It keeps no state but the profile and the model project's file, speaks to the control plane through
// client alone, and ends no process: Run returns the exit code. The programs that a verb only starts
// (the control plane, the agent) come in from main as Programs.
package cli

// Version is this build's version; the linker sets it.
var Version = "0.1.0"
