package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"interlock.sh/access"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/ident"
	"interlock.sh/server/store"
)

const credentialColumns = "id, prefix, kind, label, COALESCE(account,''), COALESCE(project,''), COALESCE(model_group,''), COALESCE(role,''), COALESCE(machine,''), created_at, expires_at, last_used_at, revoked_at"

// credential is one row, as what it proves and its life.
type credential struct {
	Principal
	prefix    string
	createdAt time.Time
	expiresAt *time.Time
	lastUsed  *time.Time
	revokedAt *time.Time
}

func scanCredential(row store.Scanner) (credential, error) {
	var (
		c                      credential
		created                int64
		expires, used, revoked *int64
	)
	err := row.Scan(&c.KeyID, &c.prefix, &c.Kind, &c.Label, &c.Account, &c.Project, &c.Group, &c.Role, &c.Machine,
		&created, &expires, &used, &revoked)
	c.createdAt = time.UnixMilli(created).UTC()
	c.expiresAt, c.lastUsed, c.revokedAt = moment(expires), moment(used), moment(revoked)
	return c, err
}

func moment(ms *int64) *time.Time {
	if ms == nil {
		return nil
	}
	t := time.UnixMilli(*ms).UTC()
	return &t
}

func (c credential) view() access.KeyView {
	return access.KeyView{
		ID: c.KeyID, Project: c.Project, Kind: c.Kind, Label: c.Label, Prefix: c.prefix,
		Scopes: c.Kind.Scopes(), CreatedAt: c.createdAt, LastUsed: c.lastUsed, RevokedAt: c.revokedAt,
	}
}

// bootstrapView is a bootstrap key as listed.
func bootstrapView(c credential) fleet.BootstrapKeyView {
	return fleet.BootstrapKeyView{
		ID: c.KeyID, Role: c.Role, Prefix: c.prefix, CreatedAt: c.createdAt, LastUsed: c.lastUsed, RevokedAt: c.revokedAt,
	}
}

// mint stores a fresh credential for p and returns its text, which is known nowhere else afterwards.
func mint(tx *store.Tx, prefix string, p Principal, life time.Duration) (string, credential, error) {
	secret := ident.Secret(prefix)
	now := tx.Now()
	c := credential{Principal: p, prefix: ident.ShownPrefix(secret), createdAt: now}
	c.KeyID = ident.New("key", now)
	var expires *int64
	if life > 0 {
		at := now.Add(life)
		c.expiresAt = &at
		ms := at.UnixMilli()
		expires = &ms
	}
	_, err := tx.Exec(`INSERT INTO credentials (id, hash, prefix, kind, label, account, project, model_group, role, machine, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		c.KeyID, ident.HashSecret(secret), c.prefix, string(p.Kind), p.Label, orNull(p.Account), orNull(p.Project),
		orNull(p.Group), orNull(string(p.Role)), orNull(p.Machine), now.UnixMilli(), expires)
	return secret, c, err
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// NewBootstrapKey replaces the bootstrap key of a group's role: earlier ones stop enrolling at once,
// machines that enrolled with them go on.
func NewBootstrapKey(tx *store.Tx, project, group string, role fleet.Role) (fleet.BootstrapKey, error) {
	kind := access.Kind(role)
	if _, err := tx.Exec("UPDATE credentials SET revoked_at = $1 WHERE model_group = $2 AND kind = $3 AND revoked_at IS NULL",
		tx.Now().UnixMilli(), group, string(kind)); err != nil {
		return fleet.BootstrapKey{}, err
	}
	secret, c, err := mint(tx, bootstrapPrefix, Principal{Kind: kind, Label: string(role), Project: project, Group: group, Role: role}, 0)
	return fleet.BootstrapKey{ID: c.KeyID, Role: role, Key: secret}, err
}

// StillValid refuses a credential that was revoked since it was proved, inside the operation that it
// pays for: a rotation stops new enrollments at once, those under way too.
func StillValid(q store.Querier, p Principal) error {
	var revoked *int64
	if err := q.QueryRow("SELECT revoked_at FROM credentials WHERE id = $1", p.KeyID).Scan(&revoked); err != nil {
		return fmt.Errorf("read credential: %w", err)
	}
	if revoked != nil {
		return fault.New(fault.Revoked, "the credential was revoked a moment ago").WithHint("%s", wayBack(p))
	}
	return nil
}

// StillValid is the function outside of an operation, for whoever holds on to what was proved before.
func (s *Service) StillValid(ctx context.Context, p Principal) error {
	return StillValid(s.db.Reader(ctx), p)
}

// NewMachineCredential makes the credential of one enrolled machine.
func NewMachineCredential(tx *store.Tx, project, group string, role fleet.Role, machine, label string) (string, error) {
	secret, _, err := mint(tx, machinePrefix, Principal{
		Kind: access.Machine, Label: label, Project: project, Group: group, Role: role, Machine: machine,
	}, 0)
	return secret, err
}

// RevokeMachine ends every credential of one machine.
func RevokeMachine(tx *store.Tx, machine string) error {
	_, err := tx.Exec("UPDATE credentials SET revoked_at = $1 WHERE machine = $2 AND revoked_at IS NULL", tx.Now().UnixMilli(), machine)
	return err
}

// BootstrapKeys lists the bootstrap keys of a group, newest first.
func BootstrapKeys(q store.Querier, group string) ([]fleet.BootstrapKeyView, error) {
	rows, err := q.Query("SELECT "+credentialColumns+" FROM credentials WHERE model_group = $1 AND kind IN ('client', 'trainer') ORDER BY created_at DESC, id DESC", group)
	return store.All(rows, err, func(r store.Scanner) (fleet.BootstrapKeyView, error) {
		c, err := scanCredential(r)
		return bootstrapView(c), err
	})
}

// keyOf reads one project key; a credential of another project or of no project kind is not found.
func keyOf(q store.Querier, project, id string) (credential, error) {
	c, err := scanCredential(q.QueryRow("SELECT "+credentialColumns+" FROM credentials WHERE id = $1 AND project = $2 AND kind IN ('sdk', 'task-producer', 'task-worker', 'metrics')", id, project))
	if errors.Is(err, sql.ErrNoRows) {
		return c, fault.New(fault.NotFound, "project %s has no key %s", project, id).WithHint("list them: interlock keys list --project %s", project)
	}
	return c, err
}
