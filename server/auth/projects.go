package auth

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"time"

	"interlock.sh/access"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/server/store"
)

var projectPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// NewProject creates a project with the account as its member.
func (s *Service) NewProject(ctx context.Context, account string, req access.NewProjectRequest) (access.Project, error) {
	if !projectPattern.MatchString(req.ID) {
		return access.Project{}, fault.New(fault.Invalid, "project id %q is not 1 to 63 characters of [a-z0-9-] beginning with a letter or digit", req.ID).WithField("id")
	}
	if req.Name == "" {
		req.Name = req.ID
	}
	if err := fleet.CheckName("name", req.Name); err != nil {
		return access.Project{}, err
	}
	var out access.Project
	err := s.db.Write(ctx, store.LaneAdmit, func(tx *store.Tx) error {
		now := tx.Now()
		res, err := tx.Exec("INSERT INTO projects (id, name, created_at) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING", req.ID, req.Name, now.UnixMilli())
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil {
			return err
		} else if n == 0 {
			return fault.New(fault.Conflict, "a project %s exists already", req.ID).WithField("id").WithHint("choose another id")
		}
		out = access.Project{ID: req.ID, Name: req.Name, CreatedAt: now}
		_, err = tx.Exec("INSERT INTO members (project, account, created_at) VALUES ($1, $2, $3)", req.ID, account, now.UnixMilli())
		return err
	})
	return out, err
}

// Projects lists the projects that an account is a member of.
func (s *Service) Projects(ctx context.Context, account string) ([]access.Project, error) {
	rows, err := s.db.Query(ctx, "SELECT p.id, p.name, p.created_at FROM projects p JOIN members m ON m.project = p.id WHERE m.account = $1 ORDER BY p.id", account)
	return store.All(rows, err, scanProject)
}

// Member reports whether an account is a member of a project.
func (s *Service) Member(ctx context.Context, account, project string) (bool, error) {
	var n int
	err := s.db.QueryRow(ctx, "SELECT COUNT(*) FROM members WHERE account = $1 AND project = $2", account, project).Scan(&n)
	return n > 0, err
}

func projectOf(q store.Querier, id string) (access.Project, error) {
	p, err := scanProject(q.QueryRow("SELECT id, name, created_at FROM projects WHERE id = $1", id))
	if errors.Is(err, sql.ErrNoRows) {
		return p, fault.New(fault.NotFound, "there is no project %s", id).WithHint("list them: interlock projects")
	}
	return p, err
}

func scanProject(r store.Scanner) (access.Project, error) {
	var p access.Project
	var created int64
	err := r.Scan(&p.ID, &p.Name, &created)
	p.CreatedAt = time.UnixMilli(created).UTC()
	return p, err
}
