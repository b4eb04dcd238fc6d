// Package rig stands the real programs up for a measurement: a control plane on an empty data folder, an
// enrolled agent, and the llama-server that the agent supervises. It owns processes and keys, and
// measures nothing.
package rig
