package fleet

import "time"

// SeenFor is how long after its last heartbeat a machine still counts as online.
const SeenFor = 90 * time.Second

// Mode is what the control plane wants of a machine.
type Mode string

// The modes of a machine.
const (
	Active   Mode = "active"
	Paused   Mode = "paused"   // model processes stopped, installation kept
	Draining Mode = "draining" // current work ends, no new work; models stay loaded
)

// Desired is the desired state of one machine: one document with a version. It names everything the
// machine may run; what it does not name is stopped.
type Desired struct {
	Version     int64               `json:"version"`
	Machine     string              `json:"machine"`
	Group       string              `json:"group"`
	Role        Role                `json:"role"`
	Mode        Mode                `json:"mode"`
	Deployments []DesiredDeployment `json:"deployments"`
}

// DesiredDeployment is one model to serve, with release and settings already merged.
type DesiredDeployment struct {
	ID            string   `json:"id"`
	Alias         string   `json:"alias"`
	Runtime       Runtime  `json:"runtime"`
	Files         []File   `json:"files"`
	Args          []string `json:"args,omitempty"`
	ContextLength int      `json:"contextLength"`
	Slots         int      `json:"slots"`
	Threads       int      `json:"threads,omitempty"`
	GPULayers     *int     `json:"gpuLayers,omitempty"`
}

// Bytes is the size of all files.
func (d DesiredDeployment) Bytes() int64 {
	var n int64
	for _, f := range d.Files {
		n += f.Size
	}
	return n
}

// EnrollRequest trades a bootstrap key for a machine credential.
type EnrollRequest struct {
	Group   string    `json:"group" doc:"name or id"`
	Role    Role      `json:"role"`
	Runtime Runtime   `json:"runtime,omitempty" doc:"default llama.cpp"`
	Name    string    `json:"name" doc:"what people call the machine"`
	HostID  string    `json:"hostId" doc:"opaque, differs between physical machines"`
	Host    HostFacts `json:"host"`
	Version string    `json:"version" doc:"of the agent"`
}

// EnrollResponse is the machine's identity. Credential is shown once.
type EnrollResponse struct {
	Machine    string `json:"machine" doc:"the worker id"`
	Credential string `json:"credential"`
	Identity
}

// Identity is what the control plane derives from a machine credential.
type Identity struct {
	Group     string  `json:"group" doc:"the modelId"`
	GroupName string  `json:"groupName"`
	Project   string  `json:"project"`
	Role      Role    `json:"role"`
	Runtime   Runtime `json:"runtime"`
}

// Heartbeat is what a machine reports, every 10 s and on every change. Unknown figures are absent.
type Heartbeat struct {
	Instance       string             `json:"instance" doc:"new at each start of the agent"`
	HostID         string             `json:"hostId"`
	Version        string             `json:"version" doc:"of the agent"`
	DesiredVersion int64              `json:"desiredVersion" doc:"version of the desired state that was last read"`
	State          State              `json:"state" doc:"the machine's own word on itself"`
	Host           HostFacts          `json:"host"`
	Server         *ServerFacts       `json:"server,omitempty" doc:"the model server found on the machine"`
	Deployments    []DeploymentReport `json:"deployments"`
	Warnings       []string           `json:"warnings,omitempty"`
	Hours          *Hours             `json:"hours,omitempty" doc:"what the owner allows now"`
	Update         *UpdateReport      `json:"update,omitempty" doc:"the newest news of the updater"`
}

// Hours is what the owner of a machine allows now, and when that changes by the clock.
type Hours struct {
	Mode string     `json:"mode" doc:"always, night, window or paused"`
	Open bool       `json:"open"`
	Why  string     `json:"why,omitempty" doc:"why not: until 22:00, on battery"`
	Next *time.Time `json:"next,omitempty" doc:"the next change that the clock alone brings"`
}

// UpdateReport is what became of the newest update of a machine.
type UpdateReport struct {
	State   string    `json:"state" doc:"current, available, waiting, staged, watching, reverted, stopped, none (no signed releases are offered)"`
	Version string    `json:"version,omitempty" doc:"that it is about"`
	Why     string    `json:"why,omitempty"`
	At      time.Time `json:"at"`
}

// HeartbeatResponse tells a machine whether to read its desired state again.
type HeartbeatResponse struct {
	DesiredVersion int64 `json:"desiredVersion"`
	NextMs         int64 `json:"nextMs" doc:"send the next heartbeat within this time"`
}

// HostFacts describes the computer.
type HostFacts struct {
	Hostname    string `json:"hostname,omitempty"`
	OS          string `json:"os,omitempty"`
	Arch        string `json:"arch,omitempty"`
	OSVersion   string `json:"osVersion,omitempty"`
	CPU         string `json:"cpu,omitempty"`
	Cores       int    `json:"cores,omitempty"`
	MemoryTotal *int64 `json:"memoryTotal,omitempty" doc:"bytes"`
	MemoryFree  *int64 `json:"memoryFree,omitempty" doc:"bytes available without swapping"`
	DiskFree    *int64 `json:"diskFree,omitempty" doc:"bytes where models are kept"`
	GPUs        []GPU  `json:"gpus,omitempty"`
	Zone        string `json:"zone,omitempty" doc:"IANA time zone"`
}

// GPU is one accelerator.
type GPU struct {
	Name        string   `json:"name"`
	MemoryTotal *int64   `json:"memoryTotal,omitempty"`
	MemoryFree  *int64   `json:"memoryFree,omitempty"`
	Utilization *float64 `json:"utilization,omitempty" doc:"0 to 100"`
}

// ServerFacts is the model server program that the machine found.
type ServerFacts struct {
	Path    string   `json:"path"`
	Version string   `json:"version,omitempty"`
	Build   string   `json:"build,omitempty"`
	Devices []string `json:"devices,omitempty" doc:"accelerators that this build can use; none is CPU only"`
}

// DeploymentReport is one model on one machine.
type DeploymentReport struct {
	ID              string     `json:"id"`
	Alias           string     `json:"alias"`
	State           State      `json:"state"`
	Slots           int        `json:"slots,omitempty"`
	Busy            int        `json:"busy,omitempty"`
	ContextLength   int        `json:"contextLength,omitempty"`
	TokensPerSecond *float64   `json:"tokensPerSecond,omitempty" doc:"of the newest finished answer"`
	MemoryBytes     *int64     `json:"memoryBytes,omitempty" doc:"resident size of the model server"`
	Pid             int        `json:"pid,omitempty"`
	Restarts        int        `json:"restarts,omitempty"`
	Downloaded      int64      `json:"downloaded,omitempty" doc:"bytes on disk while downloading"`
	Total           int64      `json:"total,omitempty"`
	ReadySince      *time.Time `json:"readySince,omitempty"`
	LastError       string     `json:"lastError,omitempty" doc:"last error line of a failed start"`
	Log             []string   `json:"log,omitempty" doc:"newest lines of the model server"`
}

// Machine is an enrolled machine as people see it.
type Machine struct {
	ID          string             `json:"id"`
	Name        string             `json:"name"`
	Project     string             `json:"project"`
	Group       string             `json:"group"`
	GroupName   string             `json:"groupName"`
	Role        Role               `json:"role"`
	Runtime     Runtime            `json:"runtime"`
	Mode        Mode               `json:"mode"`
	State       State              `json:"state"`
	Version     string             `json:"version,omitempty"`
	Host        HostFacts          `json:"host"`
	Server      *ServerFacts       `json:"server,omitempty"`
	Deployments []DeploymentReport `json:"deployments"`
	Warnings    []string           `json:"warnings,omitempty"`
	EnrolledAt  time.Time          `json:"enrolledAt"`
	LastSeen    *time.Time         `json:"lastSeen,omitempty"`
	RevokedAt   *time.Time         `json:"revokedAt,omitempty"`
	Hours       *Hours             `json:"hours,omitempty"`
	Update      *UpdateReport      `json:"update,omitempty"`
}

// Sample is one point of a machine's telemetry history.
type Sample struct {
	At              time.Time `json:"at"`
	TokensPerSecond *float64  `json:"tokensPerSecond,omitempty"`
	Busy            int       `json:"busy"`
	Slots           int       `json:"slots"`
	MemoryFree      *int64    `json:"memoryFree,omitempty"`
}

// MachineDetail is a machine with its recent history, oldest sample first.
type MachineDetail struct {
	Machine Machine  `json:"machine"`
	Samples []Sample `json:"samples"`
}
