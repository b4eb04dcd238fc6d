package api

import (
	"context"

	"interlock.sh/access"
)

func (a *API) login(ctx context.Context, in *struct{ Body access.LoginRequest }) (*body[access.LoginResponse], error) {
	return answer(a.Auth.Login(ctx, in.Body))
}

func (a *API) whoami(ctx context.Context, _ *empty) (*body[access.Whoami], error) {
	p := caller(ctx)
	w := access.Whoami{
		Kind: p.Kind, Project: p.Project, KeyID: p.KeyID, Label: p.Label, Group: p.Group, Role: string(p.Role),
		Machine: p.Machine, Scopes: p.Kind.Scopes(), Version: a.info.Version,
	}
	if p.Kind != access.Account {
		return answer(w, nil)
	}
	w.Account = p.Label
	var err error
	w.Projects, err = a.Auth.Projects(ctx, p.Account)
	return answer(w, err)
}

type projectList struct {
	Projects []access.Project `json:"projects"`
}

func (a *API) listProjects(ctx context.Context, _ *empty) (*body[projectList], error) {
	ps, err := a.Auth.Projects(ctx, caller(ctx).Account)
	return answer(projectList{orEmpty(ps)}, err)
}

func (a *API) newProject(ctx context.Context, in *struct{ Body access.NewProjectRequest }) (*body[access.Project], error) {
	return answer(a.Auth.NewProject(ctx, caller(ctx).Account, in.Body))
}

// OfProject is the project in a path.
type OfProject struct {
	Project string `path:"project"`
}

type keyOf struct {
	OfProject
	Key string `path:"key"`
}

type keyList struct {
	Keys []access.KeyView `json:"keys"`
}

func (a *API) listKeys(ctx context.Context, in *OfProject) (*body[keyList], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	ks, err := a.Auth.Keys(ctx, project)
	return answer(keyList{orEmpty(ks)}, err)
}

func (a *API) newKey(ctx context.Context, in *struct {
	OfProject
	Body access.NewKeyRequest
}) (*body[access.NewKey], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return answer(a.Auth.NewKey(ctx, project, in.Body))
}

func (a *API) rollKey(ctx context.Context, in *keyOf) (*body[access.NewKey], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return answer(a.Auth.RollKey(ctx, project, in.Key))
}

func (a *API) revokeKey(ctx context.Context, in *keyOf) (*body[access.KeyView], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return answer(a.Auth.RevokeKey(ctx, project, in.Key))
}

// orEmpty makes an empty list an empty JSON array, not null.
func orEmpty[T any](v []T) []T {
	if v == nil {
		return []T{}
	}
	return v
}
