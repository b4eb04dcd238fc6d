// Package llama drives one llama.cpp server: it finds the program, builds its arguments, reads model
// headers, works out how much memory a model needs, and talks to a running server.
//
// It owns what is particular to llama.cpp and nothing else. It starts no process, stops none, and
// restarts none: the agent supervises. It never trusts a build number; what it needs it looks for in
// the flags of --help and the fields of /props, because builds that differ answer differently.
//
// A server is always bound to the literal 127.0.0.1 with a random key in a 0600 file, so that a
// program of someone else on the port is told from ours: see Client.Health.
package llama
