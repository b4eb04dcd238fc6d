// Package serverfleet keeps model groups, releases, deployments, channels and machines, and computes
// the desired state of each machine. It owns the tables of the fleet migration. It never authorizes:
// callers pass what they derived from a credential.
package serverfleet

import (
	"encoding/json"
	"io"
	"time"

	"interlock.sh/server/hints"
	"interlock.sh/server/store"
)

// Blobs is what the fleet needs of stored files.
type Blobs interface {
	Open(sha256 string) (io.ReadSeekCloser, int64, error)
}

// Service is the fleet of one control plane.
type Service struct {
	db    *store.DB
	blobs Blobs
	hints *hints.Hub
}

// New is a service over db that reads model headers from blobs and publishes hints.
func New(db *store.DB, blobs Blobs, h *hints.Hub) *Service {
	return &Service{db: db, blobs: blobs, hints: h}
}

func at(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func maybe(ms *int64) *time.Time {
	if ms == nil {
		return nil
	}
	t := at(*ms)
	return &t
}

// text is a wire value as a JSON column.
func text(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}
