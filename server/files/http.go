package files

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"interlock.sh/fault"
)

const maxRequestJSON = 64 << 10

// Handlers are the HTTP side of a store, without routes and without authorization. Each returns the
// error for the caller's one encoder, and has then written nothing but perhaps a header.
//
//	POST  /api/blobs/uploads                   Begin
//	GET   /api/blobs/uploads/{id}              Status
//	PUT   /api/blobs/uploads/{id}?offset=      Append
//	DELETE /api/blobs/uploads/{id}             Drop
//	POST  /api/blobs/uploads/{id}/finish       Finish
//	GET, HEAD /api/blobs/{sha256}              Get
type Handlers struct {
	store *Store
	scope func(*http.Request) string
}

// NewHandlers serves s. scope names the owner of a request's uploads, such as its project: an upload
// is seen by its owner only.
func NewHandlers(s *Store, scope func(*http.Request) string) *Handlers {
	return &Handlers{store: s, scope: scope}
}

// Begin starts or finds an upload: {sha256?, size, resumeKey?, chunkBytes?} → Upload.
func (h *Handlers) Begin(w http.ResponseWriter, r *http.Request) error {
	q := BeginRequest{Size: -1}
	if err := readJSON(w, r, &q); err != nil {
		return err
	}
	q.Scope = h.scope(r)
	up, err := h.store.Begin(r.Context(), q)
	if err != nil {
		return err
	}
	return writeJSON(w, up)
}

// Status tells where an upload stands.
func (h *Handlers) Status(w http.ResponseWriter, r *http.Request) error {
	up, err := h.store.Status(h.scope(r), r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, up)
}

// Append takes the raw bytes of one chunk → {offset}.
func (h *Handlers) Append(w http.ResponseWriter, r *http.Request) error {
	offset, err := strconv.ParseInt(r.URL.Query().Get("offset"), 10, 64)
	if err != nil || offset < 0 {
		return fault.New(fault.Invalid, "the query parameter offset is missing or no byte position").WithField("offset")
	}
	if r.ContentLength > h.store.o.MaxChunk {
		return tooLarge(h.store.o.MaxChunk)
	}
	next, err := h.store.Append(r.Context(), h.scope(r), r.PathValue("id"), offset, r.Body)
	if err != nil {
		return err
	}
	return writeJSON(w, struct {
		Offset int64 `json:"offset"`
	}{next})
}

// Finish checks an upload and stores it: {sha256?} → Ref.
func (h *Handlers) Finish(w http.ResponseWriter, r *http.Request) error {
	var q struct {
		SHA256 string `json:"sha256"`
	}
	if err := readJSON(w, r, &q); err != nil {
		return err
	}
	ref, err := h.store.Finish(r.Context(), h.scope(r), r.PathValue("id"), q.SHA256)
	if err != nil {
		return err
	}
	return writeJSON(w, ref)
}

// Drop gives an upload up.
func (h *Handlers) Drop(w http.ResponseWriter, r *http.Request) error {
	if err := h.store.Drop(h.scope(r), r.PathValue("id")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// oneRange is a range with a start, the only form that clients of ours send.
var oneRange = regexp.MustCompile(`^bytes=(\d+)-\d*$`)

// Get serves a blob with ranges and a strong ETag, which is the digest itself.
func (h *Handlers) Get(w http.ResponseWriter, r *http.Request) error {
	digest := r.PathValue("sha256")
	f, size, err := h.store.Open(digest)
	if err != nil {
		return err
	}
	defer f.Close()
	etag := `"` + digest + `"`
	header := w.Header()
	if m := oneRange.FindStringSubmatch(r.Header.Get("Range")); m != nil && r.Header.Get("If-None-Match") == "" {
		from, err := strconv.ParseInt(m[1], 10, 64)
		ifRange := r.Header.Get("If-Range")
		if (err != nil || from >= size) && (ifRange == "" || ifRange == etag) {
			header.Set("Content-Range", "bytes */"+strconv.FormatInt(size, 10))
			return fault.New(fault.RangeUnsatisfiable, "the blob has %d bytes, the range begins at %s", size, m[1]).
				WithField("Range").With("size", size)
		}
	}
	header.Set("ETag", etag)
	header.Set("Content-Type", "application/octet-stream")
	header.Set("X-Content-Type-Options", "nosniff")
	// Private: a shared cache must not hand out what authorization guards.
	header.Set("Cache-Control", "private, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, f) // f is an *os.File: sendfile
	return nil
}

func readJSON(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestJSON))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return fault.New(fault.TooLarge, "the request's body is larger than the limit of %d bytes", maxRequestJSON).
			With("limit", maxRequestJSON)
	case err != nil:
		return fault.Wrap(err, fault.Malformed, "the request's body ended early")
	}
	if len(body) == 0 {
		return nil
	}
	err = json.Unmarshal(body, into)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return fault.Wrap(err, fault.Malformed, "%s is a JSON %s, not a %s", wrong.Field, wrong.Value, wrong.Type).
			WithField(wrong.Field)
	case err != nil:
		return fault.Wrap(err, fault.Malformed, "the request's body is no JSON: %s", err)
	}
	return nil
}

func writeJSON(w http.ResponseWriter, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = w.Write(b) // a client that went away needs no answer
	return nil
}
