// Package e2e runs the real program against itself: the control plane, the agent and the command line
// as processes of their own, with a real llama-server and a tiny real model, or with a scripted one
// where a fault is to be seen. It asserts what a user would see.
//
// It is a module of its own, because the clients that it tries the control plane with must never become
// dependencies of the product. It owns no product code, and nothing here waits for a time to pass: a
// test asks the real program until it says what is expected, or a deadline ends the test.
//
// It runs on Linux: processes are looked for in /proc, and namespaces stand in for other computers and
// for full disks.
//
// INTERLOCK_BIN names a build of the program to test; without it one is built first.
package e2e
