package client

import (
	"context"
	"net/http"
	"net/url"

	"interlock.sh/access"
)

// Login trades the owner token, or proves an account's token.
func (c *Client) Login(ctx context.Context, req access.LoginRequest) (access.LoginResponse, error) {
	var out access.LoginResponse
	return out, c.Do(ctx, http.MethodPost, "/api/login", req, &out)
}

// Whoami says what this client's credential is.
func (c *Client) Whoami(ctx context.Context) (access.Whoami, error) {
	var out access.Whoami
	return out, c.Do(ctx, http.MethodGet, "/api/whoami", nil, &out)
}

// Projects lists the projects that the credential may see.
func (c *Client) Projects(ctx context.Context) ([]access.Project, error) {
	var out struct {
		Projects []access.Project `json:"projects"`
	}
	return out.Projects, c.Do(ctx, http.MethodGet, "/api/projects", nil, &out)
}

// NewProject creates a project.
func (c *Client) NewProject(ctx context.Context, req access.NewProjectRequest) (access.Project, error) {
	var out access.Project
	return out, c.Do(ctx, http.MethodPost, "/api/projects", req, &out)
}

// Keys lists a project's keys, revoked ones included.
func (c *Client) Keys(ctx context.Context, project string) ([]access.KeyView, error) {
	var out struct {
		Keys []access.KeyView `json:"keys"`
	}
	return out.Keys, c.Do(ctx, http.MethodGet, keysPath(project, "", ""), nil, &out)
}

// NewKey makes a key; its text is in the answer and nowhere else.
func (c *Client) NewKey(ctx context.Context, project string, req access.NewKeyRequest) (access.NewKey, error) {
	var out access.NewKey
	return out, c.Do(ctx, http.MethodPost, keysPath(project, "", ""), req, &out)
}

// RollKey makes a successor of the same kind and label. A task-worker key stays valid until revoked;
// any other is revoked in the same commit.
func (c *Client) RollKey(ctx context.Context, project, id string) (access.NewKey, error) {
	var out access.NewKey
	return out, c.Do(ctx, http.MethodPost, keysPath(project, id, "/roll"), nil, &out)
}

// RevokeKey ends a key at once.
func (c *Client) RevokeKey(ctx context.Context, project, id string) (access.KeyView, error) {
	var out access.KeyView
	return out, c.Do(ctx, http.MethodDelete, keysPath(project, id, ""), nil, &out)
}

func keysPath(project, id, verb string) string {
	p := "/api/projects/" + url.PathEscape(project) + "/keys"
	if id != "" {
		p += "/" + url.PathEscape(id)
	}
	return p + verb
}
