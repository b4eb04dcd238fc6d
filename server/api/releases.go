package api

import (
	"io"
	"net/http"
	"time"
)

// forGood has caches keep what never changes under its name.
const forGood = "public, max-age=31536000, immutable"

// putReleaseMetadata takes one metadata file of a signed release repository.
func (a *API) putReleaseMetadata(w http.ResponseWriter, r *http.Request) error {
	if err := a.Releases.Put(r.PathValue("file"), r.Body); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// releaseMetadata serves a metadata file of the mirrored repository. All but the timestamp have their version in
// the name and never change.
func (a *API) releaseMetadata(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("file")
	f, err := a.Releases.Metadata(name)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", forGood)
	if name == "timestamp.json" {
		w.Header().Set("Cache-Control", "no-cache")
	}
	http.ServeContent(w, r, "", st.ModTime(), f)
	return nil
}

// releaseTarget serves a released program, by the path that the signed targets give it.
func (a *API) releaseTarget(w http.ResponseWriter, r *http.Request) error {
	f, digest, err := a.Releases.Target(r.PathValue("path"))
	if err != nil {
		return err
	}
	return serveProgram(w, r, f, digest)
}

// serveProgram serves bytes that never change under their name, when digest names them.
func serveProgram(w http.ResponseWriter, r *http.Request, f io.ReadSeekCloser, digest string) error {
	defer f.Close() //nolint:errcheck // read only
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache")
	if digest != "" {
		h.Set("ETag", `"`+digest+`"`)
		h.Set("Cache-Control", forGood)
	}
	http.ServeContent(w, r, "", time.Time{}, f)
	return nil
}
