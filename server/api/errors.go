package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"interlock.sh/fault"
)

// errorBody is how an error crosses the wire.
type errorBody struct {
	Err *fault.Error `json:"error"`
}

// Error, GetStatus and ContentType make an errorBody what huma writes.
func (e *errorBody) Error() string             { return e.Err.Error() }
func (e *errorBody) Unwrap() error             { return e.Err }
func (e *errorBody) GetStatus() int            { return e.Err.Code.Status() }
func (e *errorBody) ContentType(string) string { return "application/json" }

// GetHeaders carries Retry-After where the error has one, and what a 401 must say.
func (e *errorBody) GetHeaders() http.Header { return errorHeaders(e.Err) }

func errorHeaders(e *fault.Error) http.Header {
	if e.Code.Status() == http.StatusUnauthorized {
		return http.Header{"Www-Authenticate": {`Bearer realm="interlock"`}}
	}
	if s, ok := e.Details["retryAfterSeconds"]; ok {
		if n, err := strconv.Atoi(strings.TrimSpace(toString(s))); err == nil {
			return http.Header{"Retry-After": {strconv.Itoa(n)}}
		}
	}
	return nil
}

func toString(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// coded turns any error into what is written, and logs the cause of those that are our fault.
func (a *API) coded(ctx context.Context, err error) *errorBody {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		// Nobody reads this; a caller that went away is no error of ours.
		return &errorBody{fault.Wrap(err, fault.Unavailable, "the request was given up")}
	}
	e := fault.Of(err)
	switch {
	case e.Code == fault.Internal:
		a.info.Logger.ErrorContext(ctx, "internal error", slog.String("id", requestOf(ctx)), slog.String("cause", reason(err)))
	case e.Cause != nil && e.Code.Status() >= 500:
		a.info.Logger.WarnContext(ctx, "request failed", slog.String("id", requestOf(ctx)), slog.String("code", string(e.Code)), slog.String("cause", reason(err)))
	}
	return &errorBody{e}
}

// reason is an error for the log: with the cause that its own text keeps from the caller.
func reason(err error) string {
	var e *fault.Error
	if errors.As(err, &e) && e.Cause != nil {
		return e.Message + ": " + reason(e.Cause)
	}
	return err.Error()
}

// fail writes err as the answer of a plain handler. It does nothing more when the answer has begun.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	if sw, ok := w.(*statusWriter); ok && sw.status != 0 {
		a.info.Logger.WarnContext(r.Context(), "answer broke off", slog.String("id", requestOf(r.Context())), slog.String("route", r.Pattern), slog.String("cause", reason(err)))
		return
	}
	var tooBig *http.MaxBytesError
	if errors.As(err, &tooBig) {
		err = tooLarge(-1, tooBig.Limit)
	}
	e := a.coded(r.Context(), err)
	for k, v := range errorHeaders(e.Err) {
		w.Header()[k] = v
	}
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		writeJSON(w, e.GetStatus(), inOpenAI(e.Err))
		return
	}
	writeJSON(w, e.GetStatus(), e)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the peer is gone: nobody is left to tell
}

func tooLarge(size, limit int64) error {
	e := fault.New(fault.TooLarge, "the body is larger than this call's limit of %d bytes", limit).With("limit", limit)
	if size >= 0 {
		e = fault.New(fault.TooLarge, "the body is %d bytes; this call's limit is %d", size, limit).With("limit", limit).With("size", size)
	}
	return e.WithHint("send less, or upload large bytes as a file and pass its hash")
}

// fromDetail words one finding of huma's: which field, and what is wrong with it.
func fromDetail(d *huma.ErrorDetail) *fault.Error {
	field, inBody := strings.CutPrefix(d.Location, "body")
	if field = strings.TrimPrefix(field, "."); !inBody {
		_, field, _ = strings.Cut(d.Location, ".") // query.limit, path.group
	}
	if m := humaMissing.FindStringSubmatch(d.Message); m != nil {
		name := strings.TrimPrefix(field+"."+m[1], ".")
		return fault.New(fault.Malformed, "%s is missing", name).WithField(name)
	}
	if d.Message == validation.MsgUnexpectedProperty {
		return fault.New(fault.Invalid, "unknown field %q", field).WithField(field).WithHint("the fields of this call are described at /openapi.json")
	}
	if field == "" && strings.HasPrefix(d.Message, "the body ") { // our own decoder's words
		return fault.New(fault.Malformed, "%s", d.Message).WithField("body")
	}
	if field == "" {
		return fault.New(fault.Malformed, "the body is not as it should be: %s", d.Message).WithField("body")
	}
	return fault.New(fault.Invalid, "%s: %s", field, d.Message).WithField(field)
}

var humaMissing = regexp.MustCompile(`^expected required property (\S+) to be present$`)

var humaLimit = regexp.MustCompile(`limit=(\d+)`)

// useCodedErrors makes huma speak our errors. huma's seam for this is a package variable; it is set
// once, to a function without state.
var useCodedErrors = sync.OnceFunc(func() {
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		for _, err := range errs {
			var e *fault.Error
			if errors.As(err, &e) {
				return &errorBody{e}
			}
		}
		return &errorBody{fromHuma(status, msg, errs)}
	}
})

// fromHuma words a refusal of huma's own validation: 422 becomes 400 with the field's name.
func fromHuma(status int, msg string, errs []error) *fault.Error {
	switch status {
	case http.StatusRequestEntityTooLarge:
		if m := humaLimit.FindStringSubmatch(msg); m != nil {
			n, _ := strconv.ParseInt(m[1], 10, 64)
			return fault.Of(tooLarge(-1, n))
		}
		return fault.New(fault.TooLarge, "%s", msg)
	case http.StatusRequestTimeout:
		return tooSlow(nil)
	case http.StatusUnprocessableEntity, http.StatusBadRequest:
		var d *huma.ErrorDetail
		if len(errs) > 0 && errors.As(errs[0], &d) {
			return fromDetail(d)
		}
		if len(errs) > 0 {
			return fault.New(fault.Malformed, "%s: %v", msg, errs[0]).WithField("body")
		}
		return fault.New(fault.Malformed, "%s", msg).WithField("body")
	case http.StatusInternalServerError:
		return fault.New(fault.Internal, "internal error")
	}
	return fault.New(fault.ForStatus(status), "%s", msg)
}
