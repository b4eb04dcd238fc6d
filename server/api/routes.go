package api

import (
	"context"
)

// Parts are the rooms behind the API.
type Parts struct {
	Auth   Identity
	Meters *Meters
	// Ready says why the control plane cannot serve yet or any more; nil when it can.
	Ready func(ctx context.Context) error
}

// routes is the table of contents: every path, who may call it, what it does.
func (a *API) routes() []route {
	return []route{
		{"GET", "/q/health", anyone, plain("Whether the control plane serves", a.health)},
		{"GET", "/openapi.json", anyone, plain("This description", a.openapi)},
		{"GET", "/api/metrics", scrapers, plain("Prometheus metrics", a.metrics)},

		{"POST", "/api/login", anyone, operation("Trade the owner token, or prove an account's token", a.login)},
		{"GET", "/api/whoami", anybody, operation("What this credential is", a.whoami)},
		{"GET", "/api/projects", admins, operation("The account's projects", a.listProjects)},
		{"POST", "/api/projects", admins, operation("Create a project", a.newProject)},
		{"GET", "/api/projects/{project}/keys", admins, operation("Keys of a project, by prefix", a.listKeys)},
		{"POST", "/api/projects/{project}/keys", admins, operation("Make a key; its text is shown once", a.newKey)},
		{"POST", "/api/projects/{project}/keys/{key}/roll", admins, operation("Make a key's successor", a.rollKey)},
		{"DELETE", "/api/projects/{project}/keys/{key}", admins, operation("Revoke a key at once", a.revokeKey)},
	}
}
