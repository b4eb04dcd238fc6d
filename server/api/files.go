package api

import (
	"net/http"

	"interlock.sh/access"
	"interlock.sh/fault"
	"interlock.sh/server/files"
	"interlock.sh/server/fleet"
)

// beginUpload starts or finds an upload. Bytes that the server has already are granted only to a
// project that stored them before: a digest is no proof that somebody has the bytes.
func (a *API) beginUpload(w http.ResponseWriter, r *http.Request) error {
	q := files.BeginRequest{Size: -1}
	if err := readJSON(r, &q); err != nil {
		return err
	}
	project, err := a.project(r.Context(), r.URL.Query().Get("project"))
	if err != nil {
		return err
	}
	q.Scope = project
	if q.SHA256 != "" {
		if err := files.CheckDigest(q.SHA256); err != nil {
			return err
		}
		owned, err := a.Fleet.Owns(r.Context(), project, q.SHA256)
		if err != nil {
			return err
		}
		if !owned {
			q.ResumeKey, q.SHA256 = "sha256:"+q.SHA256, ""
		}
	}
	up, err := a.Files.Begin(r.Context(), q)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, up)
	return nil
}

// chunkAt says where a chunk belongs, chunkTaken how far the upload is with it.
func chunkAt(d description) {
	query[int64]("offset", "position of the chunk's first byte", true)(d)
}

type chunkTaken struct {
	Offset int64 `json:"offset"`
}

type finishRequest struct {
	SHA256 string `json:"sha256,omitempty" doc:"digest of all bytes, in hex"`
}

// finishUpload checks an upload, stores it and records whose it is.
func (a *API) finishUpload(w http.ResponseWriter, r *http.Request) error {
	var q finishRequest
	if err := readJSON(r, &q); err != nil {
		return err
	}
	project, err := a.project(r.Context(), r.URL.Query().Get("project"))
	if err != nil {
		return err
	}
	ref, err := a.Files.Finish(r.Context(), project, r.PathValue("id"), q.SHA256)
	if err != nil {
		return err
	}
	if err := a.Fleet.Own(r.Context(), project, ref.SHA256, ref.Size); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, ref)
	return nil
}

// uploads serves a handler of package files for the uploads of the caller's project.
func (a *API) uploads(handle func(h *files.Handlers, w http.ResponseWriter, r *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		project, err := a.project(r.Context(), r.URL.Query().Get("project"))
		if err != nil {
			return err
		}
		return handle(files.NewHandlers(a.Files, func(*http.Request) string { return project }), w, r)
	}
}

// getBlob serves bytes to a project that stored them, to a machine whose desired state or current work
// names them, and to a worker of the project's own hardware whose current work names them.
func (a *API) getBlob(w http.ResponseWriter, r *http.Request) error {
	digest := r.PathValue("sha256")
	ok, err := a.mayRead(r, digest)
	if err != nil {
		return err
	}
	if !ok {
		return fault.New(fault.ChecksumUnknown, "there are no bytes with SHA-256 %s for this credential", digest)
	}
	return files.NewHandlers(a.Files, nil).Get(w, r)
}

func (a *API) mayRead(r *http.Request, digest string) (bool, error) {
	ctx, p := r.Context(), caller(r.Context())
	if p.Kind == access.TaskWorker {
		return a.AI.MayReadOnHardware(ctx, p.Project, digest)
	}
	if p.Kind != access.Machine {
		project, err := a.project(ctx, r.URL.Query().Get("project"))
		if err != nil {
			return false, err
		}
		return a.Fleet.Owns(ctx, project, digest)
	}
	d, err := a.Fleet.Desired(ctx, p.Machine)
	if err != nil || serverfleet.MayRead(d, digest) {
		return err == nil, err
	}
	return a.AI.MayRead(ctx, p.Machine, digest)
}
