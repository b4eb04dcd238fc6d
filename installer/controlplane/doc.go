// Package controlplane installs the programs of a control plane on its machine and replaces them: each
// version in a folder of its own that only root writes to, one link that names the current one, and an
// upgrade that goes back by itself.
//
// It knows the order of things and undoes them. How a service is stopped, a database copied and a server
// asked is told to it by functions, so it knows neither the service manager nor the server.
//
//	running ─▶ drained ─▶ copied ─▶ swapped ─▶ started ─▶ serves as the new version
//	   ▲          │          │         │          │
//	   └──────────┴──────────┴─────────┴──────────┴─ whatever fails: the old program starts again, on the
//	                             database as it is; only when it cannot read that, on the copy
package controlplane
