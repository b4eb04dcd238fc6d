package auth

import (
	"context"
	"time"

	"interlock.sh/access"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/ident"
	"interlock.sh/server/store"
)

// OwnerTokenLife is how long an owner token can be used, once.
const OwnerTokenLife = 24 * time.Hour

// NewOwnerToken makes an owner token; earlier ones that were not used are revoked.
func (s *Service) NewOwnerToken(ctx context.Context) (string, error) {
	var secret string
	err := s.db.Write(ctx, store.LaneAdmit, func(tx *store.Tx) (err error) {
		secret, err = newOwnerToken(tx)
		return err
	})
	return secret, err
}

// FirstOwnerToken makes the owner token of a server that has no account and never made one; otherwise
// it returns "".
func (s *Service) FirstOwnerToken(ctx context.Context) (string, error) {
	var secret string
	err := s.db.Write(ctx, store.LaneAdmit, func(tx *store.Tx) error {
		secret = ""
		var n int
		if err := tx.QueryRow("SELECT (SELECT COUNT(*) FROM accounts) + (SELECT COUNT(*) FROM credentials WHERE kind = 'owner')").Scan(&n); err != nil {
			return err
		}
		if n > 0 {
			return nil
		}
		var err error
		secret, err = newOwnerToken(tx)
		return err
	})
	return secret, err
}

func newOwnerToken(tx *store.Tx) (string, error) {
	if _, err := tx.Exec("UPDATE credentials SET revoked_at = $1 WHERE kind = 'owner' AND revoked_at IS NULL", tx.Now().UnixMilli()); err != nil {
		return "", err
	}
	secret, _, err := mint(tx, ownerPrefix, Principal{Kind: access.Owner, Label: "owner token"}, OwnerTokenLife)
	return secret, err
}

// Login trades an owner token for the token of an account, once; an account's own token is proved and
// returned as it is. Any other credential is refused with fault.ScopeDenied.
func (s *Service) Login(ctx context.Context, req access.LoginRequest) (access.LoginResponse, error) {
	p, err := s.Authenticate(ctx, req.Token)
	if err != nil {
		return access.LoginResponse{}, err
	}
	switch p.Kind {
	case access.Account:
		return access.LoginResponse{Token: req.Token, Account: p.Label}, nil
	case access.Owner:
		return s.redeem(ctx, p, req)
	}
	return access.LoginResponse{}, fault.New(fault.ScopeDenied, "a key of kind %s is no login", p.Kind).
		WithHint("use an owner token (interlock admin owner-token on the server's machine), and keys where keys belong")
}

// redeem uses an owner token up: its account is made when it is not there, and gets a fresh token.
func (s *Service) redeem(ctx context.Context, p Principal, req access.LoginRequest) (access.LoginResponse, error) {
	name := req.Name
	if name == "" {
		name = "owner"
	}
	if err := fleet.CheckName("name", name); err != nil {
		return access.LoginResponse{}, err
	}
	var out access.LoginResponse
	err := s.db.Write(ctx, store.LaneAdmit, func(tx *store.Tx) error {
		now := tx.Now()
		res, err := tx.Exec("UPDATE credentials SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL", now.UnixMilli(), p.KeyID)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil {
			return err
		} else if n != 1 {
			return fault.New(fault.Revoked, "the owner token was used already").WithHint("%s", wayBack(p))
		}
		if _, err := tx.Exec("INSERT INTO accounts (id, name, created_at) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING",
			ident.New("acc", now), name, now.UnixMilli()); err != nil {
			return err
		}
		var account string
		if err := tx.QueryRow("SELECT id FROM accounts WHERE name = $1", name).Scan(&account); err != nil {
			return err
		}
		// The owner of the machine rules every project on it.
		if _, err := tx.Exec(`INSERT INTO members (project, account, created_at) SELECT id, $1, $2 FROM projects WHERE TRUE ON CONFLICT DO NOTHING`,
			account, now.UnixMilli()); err != nil {
			return err
		}
		secret, _, err := mint(tx, accountPrefix, Principal{Kind: access.Account, Label: name, Account: account}, 0)
		out = access.LoginResponse{Token: secret, Account: name}
		return err
	})
	return out, err
}
