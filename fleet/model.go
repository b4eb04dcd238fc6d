package fleet

import "time"

// Role is what a machine does for its group.
type Role string

// The two roles.
const (
	RoleClient  Role = "client"  // serves models
	RoleTrainer Role = "trainer" // trains and evaluates
)

// Valid reports whether r is one of the two roles.
func (r Role) Valid() bool { return r == RoleClient || r == RoleTrainer }

// Runtime is the kind of model server.
type Runtime string

// The runtimes that a release may name.
const (
	LlamaCpp Runtime = "llama.cpp"
	MLXLM    Runtime = "mlx-lm"
)

// Valid reports whether r is a known runtime.
func (r Runtime) Valid() bool { return r == LlamaCpp || r == MLXLM }

// Group is a model group. ID is the modelId, fixed at registration; Name is a label.
type Group struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Project   string    `json:"project"`
	Machines  int       `json:"machines" doc:"enrolled and not revoked"`
	Releases  int       `json:"releases"`
	CreatedAt time.Time `json:"createdAt"`
}

// NewGroupRequest registers a group.
type NewGroupRequest struct {
	Name string `json:"name"`
}

// BootstrapKey is a fresh bootstrap key with the whole line to paste on a machine; shown once.
type BootstrapKey struct {
	ID   string `json:"id"`
	Role Role   `json:"role"`
	Key  string `json:"key"`
	Line string `json:"line" doc:"complete install command for a machine"`
}

// NewGroup is a registered group with its two bootstrap keys.
type NewGroup struct {
	Group Group          `json:"group"`
	Keys  []BootstrapKey `json:"keys"`
}

// BootstrapKeyView is a bootstrap key as listed.
type BootstrapKeyView struct {
	ID        string     `json:"id"`
	Role      Role       `json:"role"`
	Prefix    string     `json:"prefix"`
	CreatedAt time.Time  `json:"createdAt"`
	LastUsed  *time.Time `json:"lastUsed,omitempty"`
	RevokedAt *time.Time `json:"revokedAt,omitempty"`
}

// File is one file of a release.
type File struct {
	Name   string `json:"name" doc:"a plain file name, no folder"`
	SHA256 string `json:"sha256" doc:"64 lower-case hex digits"`
	Size   int64  `json:"size" doc:"bytes"`
}

// Release is an immutable set of files with what is needed to run them.
type Release struct {
	ID            string    `json:"id"`
	Group         string    `json:"group"`
	Name          string    `json:"name"`
	Runtime       Runtime   `json:"runtime"`
	Files         []File    `json:"files" doc:"shards of a split GGUF in order"`
	Args          []string  `json:"args,omitempty" doc:"extra arguments of the model server"`
	ContextLength int       `json:"contextLength" doc:"tokens a slot"`
	Slots         int       `json:"slots" doc:"requests served at once"`
	License       string    `json:"license" doc:"the license note that people read before installing"`
	Architecture  string    `json:"architecture,omitempty" doc:"from the GGUF header"`
	Digest        string    `json:"digest" doc:"SHA-256 over all of the above but id and name"`
	CreatedAt     time.Time `json:"createdAt"`
}

// NewReleaseRequest creates a release from blobs that are already uploaded. The same name with the
// same content is the same release; with other content it is refused with both digests.
type NewReleaseRequest struct {
	Name          string   `json:"name"`
	Runtime       Runtime  `json:"runtime"`
	Files         []File   `json:"files"`
	Args          []string `json:"args,omitempty"`
	ContextLength int      `json:"contextLength,omitempty" doc:"default 4096"`
	Slots         int      `json:"slots,omitempty" doc:"default 1"`
	License       string   `json:"license"`
}

// Deployment is an alias that names exact weights and is assigned to the group's client machines.
type Deployment struct {
	ID        string     `json:"id"`
	Group     string     `json:"group"`
	Alias     string     `json:"alias" doc:"unique in the project; what applications call the model"`
	Release   string     `json:"release" doc:"name of the release"`
	ReleaseID string     `json:"releaseId"`
	Settings  Settings   `json:"settings"`
	Route     string     `json:"route" doc:"billed route, default ai.self-hosted.<alias>"`
	Ready     int        `json:"ready" doc:"machines that serve it now"`
	CreatedAt time.Time  `json:"createdAt"`
	RetiredAt *time.Time `json:"retiredAt,omitempty"`
	// Before is only in the answer to a deploy request that changed them.
	Before *Settings `json:"before,omitempty" doc:"the settings before this request, when it changed them"`
}

// NewDeploymentRequest deploys a release under an alias. Of an alias that is there it changes what is
// given and keeps the rest: the same request again does nothing, other settings restart the model.
type NewDeploymentRequest struct {
	Release  string         `json:"release" doc:"name or id"`
	Alias    string         `json:"alias"`
	Route    string         `json:"route,omitempty" doc:"absent: as it is, or ai.self-hosted.<alias>"`
	Settings SettingsChange `json:"settings,omitzero"`
}

// Channel is a name that points at a deployment of its group.
type Channel struct {
	Name      string    `json:"name"`
	Alias     string    `json:"alias"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// SetChannelRequest points a channel at a deployment.
type SetChannelRequest struct {
	Alias string `json:"alias"`
}

// Status is a group at a glance.
type Status struct {
	Group       Group              `json:"group"`
	Keys        []BootstrapKeyView `json:"keys"`
	Releases    []Release          `json:"releases"`
	Deployments []Deployment       `json:"deployments"`
	Channels    []Channel          `json:"channels"`
	Machines    []Machine          `json:"machines"`
}

// Pool is the task pool of a deployment: only machines that have it ready claim from it.
func Pool(deploymentID string) string { return "deployment:" + deploymentID }
