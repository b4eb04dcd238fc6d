package api

import (
	"context"

	"interlock.sh/ai"
	"interlock.sh/installer"
	"interlock.sh/server/ai"
	"interlock.sh/server/files"
	"interlock.sh/server/fleet"
	"interlock.sh/server/hints"
	"interlock.sh/server/releases"
	"interlock.sh/server/tasks"
	"interlock.sh/tasks"
)

// Parts are the rooms behind the API.
type Parts struct {
	Auth  Identity
	Tasks *servertasks.Service
	Fleet *serverfleet.Service
	AI    *serverai.Service
	Files *files.Store
	// Releases is the mirror of signed programs.
	Releases *releases.Mirror
	Hints    *hints.Hub
	Meters   *Meters
	// Ready says why the control plane cannot serve yet or any more; nil when it can.
	Ready func(ctx context.Context) error
}

// routes is the table of contents: every path, who may call it, what it does.
func (a *API) routes() []route {
	return []route{
		{"GET", "/q/health", anyone, plain("Whether the control plane serves", a.health, gives[healthy](), mayFail(503, "It is starting or shutting down"))},
		{"GET", "/openapi.json", anyone, plain("This description", a.openapi, gives[map[string]any]())},
		{"GET", "/api/metrics", scrapers, plain("Prometheus metrics: of the server, and of the key's project", a.metrics, givesBytes("text/plain"))},

		{"POST", "/api/login", anyone, operation("Trade the owner token, or prove an account's token", a.login)},
		{"GET", "/api/whoami", anybody, operation("What this credential is", a.whoami)},
		{"GET", "/api/projects", admins, operation("The account's projects", a.listProjects)},
		{"POST", "/api/projects", admins, operation("Create a project", a.newProject)},
		{"GET", "/api/projects/{project}/keys", admins, operation("Keys of a project, by prefix", a.listKeys)},
		{"POST", "/api/projects/{project}/keys", admins, operation("Make a key; its text is shown once", a.newKey)},
		{"POST", "/api/projects/{project}/keys/{key}/roll", admins, operation("Make a key's successor", a.rollKey)},
		{"DELETE", "/api/projects/{project}/keys/{key}", admins, operation("Revoke a key at once", a.revokeKey)},

		{"GET", "/api/models/groups", admins, operation("The project's model groups", a.listGroups)},
		{"POST", "/api/models/groups", admins, operation("Register a model group", a.registerGroup)},
		{"GET", "/api/models/groups/{group}", admins, operation("A group at a glance", a.groupStatus)},
		{"GET", "/api/models/groups/{group}/keys", admins, operation("Bootstrap keys of a group", a.listGroupKeys)},
		{"POST", "/api/models/groups/{group}/keys/{role}/rotate", admins, operation("Replace a bootstrap key", a.rotateGroupKey)},
		{"POST", "/api/models/groups/{group}/releases", admins, operation("Create an immutable release", a.createRelease)},
		{"POST", "/api/models/groups/{group}/deployments", admins, operation("Deploy a release under an alias", a.deploy)},
		{"DELETE", "/api/models/groups/{group}/deployments/{alias}", admins, operation("Take a deployment off the machines", a.retireDeployment)},
		{"PUT", "/api/models/groups/{group}/channels/{channel}", admins, operation("Point a channel at a deployment", a.setChannel)},
		{"DELETE", "/api/models/groups/{group}/channels/{channel}", admins, operation("Remove a channel", a.removeChannel)},

		{"GET", "/api/machines", admins, operation("The project's machines", a.listMachines)},
		{"GET", "/api/machines/{machine}", admins, operation("One machine with its telemetry", a.getMachine)},
		{"POST", "/api/machines/{machine}/{action}", admins, operation("Pause, resume, drain or revoke a machine", a.actOnMachine)},

		{"POST", "/api/machine/enroll", enrollers, operation("Trade a bootstrap key for a machine credential", a.enroll)},
		{"GET", "/api/machine/self", machines, operation("What the server derives from this credential", a.self)},
		{"GET", "/api/machine/desired", machines, operation("The machine's desired state", a.desired)},
		{"POST", "/api/machine/heartbeat", machines, operation("Report the machine's state", a.heartbeat)},

		{"POST", "/api/blobs/uploads", blobGivers, plain("Start or find an upload", a.beginUpload, inProject, takes[files.BeginRequest](), gives[files.Upload]())},
		{"GET", "/api/blobs/uploads/{id}", blobGivers, plain("Where an upload stands", a.uploads((*files.Handlers).Status), inProject, gives[files.Upload]())},
		{"PUT", "/api/blobs/uploads/{id}", blobGivers.upTo(files.DefaultMaxChunk), plain("Send a chunk", a.uploads((*files.Handlers).Append), inProject, chunkAt, takesBytes, gives[chunkTaken]())},
		{"DELETE", "/api/blobs/uploads/{id}", blobGivers, plain("Give an upload up", a.uploads((*files.Handlers).Drop), inProject, givesNothing)},
		{"POST", "/api/blobs/uploads/{id}/finish", blobGivers, plain("Check and store an upload", a.finishUpload, inProject, takes[finishRequest](), gives[files.Ref]())},
		{"GET", "/api/blobs/{sha256}", blobTakers, plain("Stored bytes, with ranges", a.getBlob, inProject, givesBytes("application/octet-stream"), givesRanges)},

		{"GET", "/assets/{name}", anyone, plain("Install script and builds", a.asset, givesBytes("application/octet-stream"), givesRanges)},
		{"GET", "/model-worker/manifest.json", anyone, plain("Builds with their digests", a.manifest, gives[installer.Manifest](), mayFail(404, "This server offers no builds"))},

		{"PUT", "/api/releases/metadata/{file}", admins.upTo(releases.MaxMetadata), plain("Send a metadata file of a signed release repository; the timestamp shows the set", a.putReleaseMetadata, takesBytes, givesNothing,
			mayFail(409, "It is older than what is live, or something that it names is not here"), mayFail(413, "It is larger than machines read"), mayFail(422, "It is not what its set was signed for"))},
		{"GET", "/model-worker/tuf/metadata/{file}", anyone, plain("Signed metadata of the released programs", a.releaseMetadata, givesBytes("application/json"))},
		{"GET", "/model-worker/tuf/targets/{path...}", anyone, plain("A released program, by its signed path with the digest in it", a.releaseTarget, givesBytes("application/octet-stream"), givesRanges)},

		{"POST", "/api/tasks", producers, operation("Submit a task", a.submitTask)},
		{"GET", "/api/tasks", producers, operation("Tasks, newest first, without inputs and results", a.listTasks)},
		{"GET", "/api/tasks/{task}", producers, operation("The canonical state of a task", a.getTask)},
		{"POST", "/api/tasks/{task}/cancel", producers, operation("Ask a task to stop", a.cancelTask)},
		{"GET", "/api/tasks/{task}/journal", producers, operation("A task's journal after a cursor", a.taskJournal)},
		{"GET", "/api/tasks/{task}/watch", producers, plain("A task's journal as it grows", a.streams(a.watchTask), inProject, resumes("the number of the last entry that came in"),
			givesEvents[tasks.Entry]("An event for each entry, named for its kind, until the task has ended"))},

		{"GET", "/api/workers", producers, operation("The project's workers", a.listWorkers)},
		{"POST", "/api/workers/register", workers, operation("Say what a worker can do", a.registerWorker)},
		{"DELETE", "/api/workers/{worker}", workers, operation("Forget a worker", a.unregisterWorker)},
		{"POST", "/api/workers/claim", workers, plain("Lease attempts, waiting for the first", a.parks(a.claimTasks), takes[tasks.ClaimRequest](), gives[tasks.ClaimResponse]())},
		{"POST", "/api/workers/renew", workers, operation("Extend leases", a.renewTasks)},
		{"POST", "/api/workers/progress", workers, operation("Report progress", a.taskProgress)},
		{"POST", "/api/workers/log", workers, operation("Append lines to the journal", a.taskLog)},
		{"POST", "/api/workers/delta", workers, plain("Send bytes of an output stream", a.taskDelta, takes[tasks.DeltaReport](), gives[tasks.DeltaResponse]())},
		{"POST", "/api/workers/complete", workers.upTo(maxReports), operation("End attempts with results", a.completeTasks)},
		{"POST", "/api/workers/fail", workers, operation("End an attempt without a result", a.failTask)},
		{"POST", "/api/workers/unknown", workers, operation("Report an outcome that cannot be proved", a.unknownTask)},

		{"POST", "/api/ai/runs", callers.upTo(ai.MaxBody), operation("Submit a durable AI run", a.submitRun)},
		{"GET", "/api/ai/runs", callers, operation("Runs, newest first", a.listRuns)},
		{"GET", "/api/ai/runs/{run}", callers, operation("The canonical state of a run", a.getRun)},
		{"POST", "/api/ai/runs/{run}/cancel", callers, operation("Ask a run to stop", a.cancelRun)},
		{"GET", "/api/ai/runs/{run}/stream", callers, plain("A run's answer as it comes in", a.streams(a.streamRun), inProject, resumes("attempt:offset, the id of the last event that came in"),
			givesEvents[ai.StreamEvent]("Events hello, delta, restarted and end"))},
		{"GET", "/api/usage", callers, operation("Usage events with totals", a.usage)},
		{"GET", "/v1/models", callers, plain("Models served now, in OpenAI's shape", a.openaiModels, inProject, gives[openaiModelList]())},
		{"GET", "/v1/models/{id...}", callers, plain("One model that is served now, in OpenAI's shape", a.openaiModel, inProject, gives[openaiModel]())},
		{"POST", "/v1/chat/completions", callers.upTo(ai.MaxBody), plain("Chat completion, in OpenAI's shape", a.holds(a.openaiChat), inProject, takes[openaiChatRequest](),
			givesEvents[openaiCompletion]("The completion; with stream: true its chunks, and at last [DONE]"), gives[openaiCompletion]())},

		{"GET", "/api/events", watchers, plain("Hints at what changed in a project", a.streams(a.projectEvents), inProject, givesEvents[nothing]("Events machines, runs and tasks: something of the kind changed"))},
		{"GET", "/api/workers/events", workers, plain("Wake-ups of a worker", a.streams(a.workerEvents), query[string]("worker", "id of the worker; a machine is its own", false),
			givesEvents[nothing]("Events work and desired: claim again, read the desired state again"))},
	}
}
