// Package auth keeps accounts, projects and credentials of every kind, and turns a presented secret
// into a Principal. It owns the tables of the access migration and must not decide what a route
// allows: that is the API layer's.
package auth

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"interlock.sh/access"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/ident"
	"interlock.sh/server/hints"
	"interlock.sh/server/store"
)

// Prefixes of the secrets, so that a scanner and a person can tell them apart.
const (
	keyPrefix       = "il_"  // project keys
	accountPrefix   = "ila_" // accounts
	bootstrapPrefix = "ilb_" // bootstrap keys of a group
	machinePrefix   = "ilm_" // machine credentials
	ownerPrefix     = "ilo_" // the owner token
)

// Principal is who asks: what the server derives from the presented secret, and nothing else.
type Principal struct {
	Kind    access.Kind
	KeyID   string
	Label   string
	Account string // id, for kind account
	Project string // for every other kind but owner
	Group   string // for client, trainer and machine
	Role    fleet.Role
	Machine string // for machine
}

// Service is the credentials of one control plane.
type Service struct {
	db    *store.DB
	hints *hints.Hub

	mu   sync.Mutex
	used map[string]time.Time // credential id → newest use that is not written yet
}

// New is a service over db that publishes hints at keys that end.
func New(db *store.DB, h *hints.Hub) *Service {
	return &Service{db: db, hints: h, used: map[string]time.Time{}}
}

// Authenticate turns a secret into a Principal. An unknown or expired one is fault.Unauthenticated,
// a revoked one fault.Revoked.
func (s *Service) Authenticate(ctx context.Context, secret string) (Principal, error) {
	if secret == "" {
		return Principal{}, fault.New(fault.Unauthenticated, "no credential was sent").
			WithHint("send the header Authorization: Bearer <key>")
	}
	row := s.db.QueryRow(ctx, "SELECT "+credentialColumns+" FROM credentials WHERE hash = $1", ident.HashSecret(secret))
	c, err := scanCredential(row)
	if errors.Is(err, sql.ErrNoRows) {
		return Principal{}, fault.New(fault.Unauthenticated, "the credential %s is not known to this server", ident.ShownPrefix(secret)).
			WithHint("check that it belongs to this server and was copied whole")
	}
	if err != nil {
		return Principal{}, err
	}
	now := s.db.Now()
	switch {
	case c.revokedAt != nil:
		return Principal{}, fault.New(fault.Revoked, "the credential %s was revoked on %s", c.prefix, c.revokedAt.Format(time.DateTime)).
			WithHint("%s", wayBack(c.Principal))
	case c.expiresAt != nil && !now.Before(*c.expiresAt):
		return Principal{}, fault.New(fault.Unauthenticated, "the credential %s expired on %s", c.prefix, c.expiresAt.Format(time.DateTime)).
			WithHint("%s", wayBack(c.Principal))
	}
	s.mu.Lock()
	s.used[c.KeyID] = now
	s.mu.Unlock()
	return c.Principal, nil
}

// wayBack is how whoever held the credential gets a new one.
func wayBack(p Principal) string {
	switch p.Kind {
	case access.Owner:
		return "on the server's machine run: interlock admin owner-token"
	case access.Account:
		return "run: interlock login"
	case access.Machine:
		return "enroll again with a fresh key: interlock models key rotate " + string(p.Role) + " --group " + p.Group
	case access.Client, access.Trainer:
		return "print a fresh line: interlock models key rotate " + string(p.Role) + " --group " + p.Group
	}
	return "make a new one: interlock keys new --kind " + string(p.Kind)
}

// Flush writes the last uses that were noted since the previous call. It is called every minute or so:
// a use is recorded to the minute, and costs no commit of its own.
func (s *Service) Flush(ctx context.Context) error {
	s.mu.Lock()
	used := s.used
	s.used = map[string]time.Time{}
	s.mu.Unlock()
	if len(used) == 0 {
		return nil
	}
	err := s.db.Write(ctx, store.LaneTelemetry, func(tx *store.Tx) error {
		for id, at := range used {
			if _, err := tx.Exec("UPDATE credentials SET last_used_at = $1 WHERE id = $2", at.Truncate(time.Minute).UnixMilli(), id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.keep(used)
	}
	return err
}

// keep puts uses back that could not be written, for the next Flush.
func (s *Service) keep(used map[string]time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, at := range used {
		if s.used[id].Before(at) {
			s.used[id] = at
		}
	}
}
