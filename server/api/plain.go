package api

import (
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// plain serves a handler that streams, parks or moves bytes, and documents it by what docs say.
func plain(summary string, handle plainHandler, docs ...doc) server {
	return func(a *API, r route) {
		h := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if err := handle(w, req); err != nil {
				a.fail(w, req, err)
			}
		})
		a.mux.Handle(r.method+" "+r.path, a.guard(r.rule, h))
		d := description{a.doc.OpenAPI().Components.Schemas, &huma.Operation{
			OperationID: operationID(r), Method: r.method, Path: strings.ReplaceAll(r.path, "...}", "}"), Summary: summary,
			Tags: []string{tag(r.path)}, Description: r.rule.words(), Responses: map[string]*huma.Response{},
		}}
		for _, name := range pathParams.FindAllStringSubmatch(r.path, -1) {
			d.param("path", strings.TrimSuffix(name[1], "..."), "", reflect.TypeFor[string](), true)
		}
		if !r.rule.public {
			d.op.Security = bearerOnly
		}
		refusal := reflect.TypeFor[errorBody]()
		if strings.HasPrefix(r.path, "/v1/") {
			refusal = reflect.TypeFor[openaiError]()
		}
		for _, status := range refusals(r) {
			d.answers(status, http.StatusText(status), "application/json", refusal)
		}
		for _, add := range docs {
			add(d)
		}
		a.doc.OpenAPI().AddOperation(d.op)
	}
}

var bearerOnly = []map[string][]string{{"bearer": {}}}

// refusals are the statuses of the errors that a route may answer by its rule and its path.
func refusals(r route) []int {
	out := []int{http.StatusBadRequest}
	if !r.rule.public {
		out = append(out, http.StatusUnauthorized, http.StatusForbidden)
	}
	if strings.Contains(r.path, "{") {
		out = append(out, http.StatusNotFound)
	}
	return out
}

var pathParams = regexp.MustCompile(`\{([^}]+)\}`)

// description is a plain route's operation in the making.
type description struct {
	schemas huma.Registry
	op      *huma.Operation
}

// doc says one thing of a plain route, as huma reads it of an operation's types.
type doc func(description)

func (d description) param(in, name, words string, t reflect.Type, required bool) {
	d.op.Parameters = append(d.op.Parameters, &huma.Param{
		Name: name, In: in, Description: words, Required: required, Schema: d.schemas.Schema(t, false, ""),
	})
}

func (d description) answers(status int, words, contentType string, t reflect.Type) {
	code := strconv.Itoa(status)
	resp := d.op.Responses[code]
	if resp == nil {
		resp = &huma.Response{Description: words, Content: map[string]*huma.MediaType{}}
		d.op.Responses[code] = resp
	}
	if contentType != "" {
		resp.Content[contentType] = d.media(t)
	}
}

// media is a content of a type's JSON, or of bytes where there is none.
func (d description) media(t reflect.Type) *huma.MediaType {
	if t == nil {
		return &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	}
	return &huma.MediaType{Schema: d.schemas.Schema(t, true, t.Name())}
}

// takes is a JSON body.
func takes[T any]() doc {
	return func(d description) {
		d.op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": d.media(reflect.TypeFor[T]())}}
	}
}

// takesBytes is a body of raw bytes.
func takesBytes(d description) {
	d.op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/octet-stream": d.media(nil)}}
}

// gives is a JSON answer.
func gives[T any]() doc {
	return func(d description) { d.answers(http.StatusOK, "OK", "application/json", reflect.TypeFor[T]()) }
}

// givesBytes is an answer of another content.
func givesBytes(contentType string) doc {
	return func(d description) { d.answers(http.StatusOK, "OK", contentType, nil) }
}

// givesEvents is a stream of server-sent events whose data is a T's JSON; words say which there are.
func givesEvents[T any](words string) doc {
	return func(d description) { d.answers(http.StatusOK, words, "text/event-stream", reflect.TypeFor[T]()) }
}

// givesRanges is what a file's answer adds to its bytes.
func givesRanges(d description) {
	d.param("header", "Range", "bytes=from- or bytes=from-to", reflect.TypeFor[string](), false)
	d.answers(http.StatusPartialContent, "The range", "application/octet-stream", nil)
	d.answers(http.StatusRequestedRangeNotSatisfiable, "The range begins behind the end", "application/json", reflect.TypeFor[errorBody]())
}

// givesNothing is an answer without a body.
func givesNothing(d description) { d.answers(http.StatusNoContent, "Done", "", nil) }

// mayFail is one more status of an error.
func mayFail(status int, words string) doc {
	return func(d description) { d.answers(status, words, "application/json", reflect.TypeFor[errorBody]()) }
}

// query is a query parameter.
func query[T any](name, words string, required bool) doc {
	return func(d description) { d.param("query", name, words, reflect.TypeFor[T](), required) }
}

// inProject is InProject of a plain route.
func inProject(d description) {
	query[string]("project", "project of an account; a key has its own", false)(d)
}

// resumes says that a stream goes on after an event.
func resumes(words string) doc {
	return func(d description) {
		d.param("header", "Last-Event-ID", words, reflect.TypeFor[string](), false)
	}
}
