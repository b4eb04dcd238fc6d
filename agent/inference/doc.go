// Package inference is one llama-server as this machine's programs use it: how the supervisor starts it
// and asks whether it is well, and how one ai/chat@1 attempt is answered through it.
//
// It is what the agent of an enrolled machine and the worker of "Your hardware" have in common. It
// decides nothing about deployments, files, memory or hours, and starts no process itself (package
// supervise does).
package inference
