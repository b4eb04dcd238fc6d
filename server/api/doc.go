// Package api is the HTTP face of the control plane: one file a resource, one routes() listing that is
// its table of contents. It authorizes, decodes, encodes and streams; it decides nothing about tasks,
// fleets or runs and holds no SQL.
//
// Resources are huma operations, so /openapi.json comes from the Go types; streams, long polls, bytes
// and /v1 are plain handlers in the same table. Every route carries a rule that says which kinds of
// credentials may call it; a route without one cannot be written.
package api
