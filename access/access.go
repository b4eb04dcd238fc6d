// Package access is the vocabulary of who may do what: accounts, projects, the kinds of keys and what
// each kind is for. It does no I/O; server/auth stores and checks them.
package access

import "time"

// Kind is the kind of a credential. A credential has exactly one.
type Kind string

// The kinds of credentials.
const (
	Account      Kind = "account"       // a person's login; rules the projects it is a member of
	SDK          Kind = "sdk"           // an application: AI runs, /v1, later units; no Tasks authority
	TaskProducer Kind = "task-producer" // submits, reads and cancels tasks of its project
	TaskWorker   Kind = "task-worker"   // registers, claims and reports; submits nothing
	Metrics      Kind = "metrics"       // reads /api/metrics
	Client       Kind = "client"        // bootstrap: enrolls inference machines of one group
	Trainer      Kind = "trainer"       // bootstrap: enrolls training machines of one group
	Machine      Kind = "machine"       // one enrolled machine, one group, one role
	Owner        Kind = "owner"         // the one-time token of the first start
)

// ProjectKinds are the kinds that `keys new --kind` makes.
var ProjectKinds = []Kind{SDK, TaskProducer, TaskWorker, Metrics}

// Scopes are what a kind may do, in the words shown to people.
func (k Kind) Scopes() []string {
	switch k {
	case SDK:
		return []string{"ai:run", "ai:read"}
	case TaskProducer:
		return []string{"tasks:submit", "tasks:read", "tasks:cancel"}
	case TaskWorker:
		return []string{"tasks:register", "tasks:claim", "tasks:report"}
	case Metrics:
		return []string{"metrics:read"}
	case Client, Trainer:
		return []string{"machines:enroll"}
	case Machine:
		return []string{"machine:self", "tasks:register", "tasks:claim", "tasks:report"}
	case Account:
		return []string{"projects:admin"}
	}
	return nil
}

// KeyView is a key as it is listed: never its text, only its prefix.
type KeyView struct {
	ID        string     `json:"id"`
	Project   string     `json:"project"`
	Kind      Kind       `json:"kind"`
	Label     string     `json:"label"`
	Prefix    string     `json:"prefix" doc:"first characters of the key"`
	Scopes    []string   `json:"scopes"`
	CreatedAt time.Time  `json:"createdAt"`
	LastUsed  *time.Time `json:"lastUsed,omitempty" doc:"to the minute"`
	RevokedAt *time.Time `json:"revokedAt,omitempty"`
}

// NewKey is a key at the one moment when its text is known.
type NewKey struct {
	KeyView
	Key string `json:"key" doc:"shown once"`
}

// NewKeyRequest asks for a key of a kind in ProjectKinds.
type NewKeyRequest struct {
	Kind  Kind   `json:"kind"`
	Label string `json:"label"`
}

// Project is one customer's room.
type Project struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"createdAt"`
}

// NewProjectRequest asks for a project. ID is a slug.
type NewProjectRequest struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
}

// LoginRequest trades the owner token for an account's token, or proves an account's token.
type LoginRequest struct {
	Token string `json:"token"`
	Name  string `json:"name,omitempty" doc:"name of the account that an owner token makes; default owner"`
}

// LoginResponse carries the token to keep.
type LoginResponse struct {
	Token   string `json:"token"`
	Account string `json:"account"`
}

// Whoami says what a credential is.
type Whoami struct {
	Kind     Kind      `json:"kind"`
	Account  string    `json:"account,omitempty"`
	Project  string    `json:"project,omitempty" doc:"the project a key belongs to"`
	Projects []Project `json:"projects,omitempty" doc:"the projects an account rules"`
	KeyID    string    `json:"keyId,omitempty"`
	Label    string    `json:"label,omitempty"`
	Group    string    `json:"group,omitempty"`
	Role     string    `json:"role,omitempty"`
	Machine  string    `json:"machine,omitempty"`
	Scopes   []string  `json:"scopes"`
	Version  string    `json:"version" doc:"of the control plane"`
}
