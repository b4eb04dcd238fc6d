package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"interlock.sh/access"
	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/server/auth"
)

// Identity is what the API needs of package auth: who asks, and the administration of keys.
type Identity = *auth.Service

// Info is what the API says of the control plane that it stands for.
type Info struct {
	Version   string
	PublicURL string // without a trailing slash
	Pin       string // sha256//… of a self-signed server, else ""
	Assets    string // folder of the builds that are offered, or ""
	// TrustedProxies are those whose X-Forwarded-For names the caller in the log.
	TrustedProxies []netip.Prefix
	InsecureHTTP   bool // PublicURL is plain http off loopback, by the operator's choice
	// BodyTime is how long an ordinary body may take to come in; 0 is 30 s. A large one has more.
	BodyTime time.Duration
	Clock    clock.Clock
	Logger   *slog.Logger
}

// API answers HTTP. Make one with New.
type API struct {
	Parts
	info Info
	mux  *http.ServeMux
	doc  huma.API
	list []route

	closing chan struct{}
	close   func()
}

// route is one line of the table of contents.
type route struct {
	method, path string
	rule         rule
	serve        server
}

// server registers a route's handler: as a documented operation, or plainly.
type server func(a *API, r route)

// New builds the API over its parts.
func New(info Info, parts Parts) *API {
	a := &API{Parts: parts, info: info, mux: http.NewServeMux(), closing: make(chan struct{})}
	if a.info.BodyTime == 0 {
		a.info.BodyTime = bodyTime
	}
	a.close = sync.OnceFunc(func() { close(a.closing) })
	cfg := huma.DefaultConfig("Interlock", info.Version)
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath = "", "", ""
	cfg.CreateHooks = nil // no $schema links in answers
	cfg.Formats = map[string]huma.Format{"application/json": lenientJSON(), "json": lenientJSON()}
	cfg.AllowAdditionalPropertiesByDefault = true
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"bearer": {Type: "http", Scheme: "bearer"}}
	cfg.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	useCodedErrors()
	a.doc = humago.New(guarded{a}, cfg)
	a.list = a.routes()
	for _, r := range a.list {
		r.serve(a, r)
	}
	a.mux.HandleFunc("/", a.unknownRoute)
	return a
}

// Close ends the open streams and parked requests, so that a shutdown need not wait for their readers.
func (a *API) Close() { a.close() }

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.observe(a.mux).ServeHTTP(w, r)
}

// guarded is the mux that huma registers on: it puts the rule of the route before the handler.
type guarded struct{ a *API }

// HandleFunc puts a handler behind the rule of its route; a route without one stops the server from being built.
func (g guarded) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	for _, r := range g.a.list {
		if r.method+" "+r.path == pattern {
			g.a.mux.Handle(pattern, g.a.guard(r.rule, http.HandlerFunc(h)))
			return
		}
	}
	panic("api: no rule for " + pattern) // a programming error, met when the server is built
}

// ServeHTTP serves what was registered.
func (g guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.a.mux.ServeHTTP(w, r) }

// unknownRoute answers what no route takes: 405 where the path has other methods, else 404.
func (a *API) unknownRoute(w http.ResponseWriter, r *http.Request) {
	var allow []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
		other := *r
		other.Method = method
		if _, pattern := a.mux.Handler(&other); pattern != "/" {
			allow = append(allow, method)
		}
	}
	if len(allow) == 0 {
		a.fail(w, r, fault.New(fault.NotFound, "there is no %s %s", r.Method, r.URL.Path).WithHint("the API is described at /openapi.json"))
		return
	}
	methods := strings.Join(allow, ", ")
	w.Header().Set("Allow", methods)
	a.fail(w, r, fault.New(fault.WrongMethod, "%s takes %s, not %s", r.URL.Path, methods, r.Method).WithHint("the API is described at /openapi.json"))
}

// operation documents a handler and serves it through huma.
func operation[I, O any](summary string, handle func(ctx context.Context, in *I) (*O, error)) server {
	return func(a *API, r route) {
		checkEmbedded(reflect.TypeFor[I]())
		op := huma.Operation{
			OperationID: operationID(r), Method: r.method, Path: r.path, Summary: summary,
			Tags: []string{tag(r.path)}, MaxBodyBytes: r.rule.limit(), BodyReadTimeout: a.bodyTime(r.rule), Description: r.rule.words(),
			Errors: refusals(r),
		}
		if !r.rule.public {
			op.Security = bearerOnly
		}
		huma.Register(a.doc, op, func(ctx context.Context, in *I) (*O, error) {
			out, err := handle(ctx, in)
			if err != nil {
				return nil, a.coded(ctx, err)
			}
			return out, nil
		})
	}
}

// schemaName is a type's name in the description; those of package files would meet others of the name.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	if strings.HasSuffix(t.PkgPath(), "server/files") {
		return "Stored" + name
	}
	return name
}

// checkEmbedded refuses an input that huma would read in part: it passes over embedded structs whose
// names are not exported. A programming error, met when the server is built.
func checkEmbedded(t reflect.Type) {
	for f := range t.Fields() {
		if f.Anonymous && f.Name != "Body" {
			if !f.IsExported() {
				panic("api: embedded input " + f.Name + " is not exported")
			}
			checkEmbedded(f.Type)
		}
	}
}

var nonWord = regexp.MustCompile(`[^a-z0-9]+`)

func operationID(r route) string {
	return strings.Trim(nonWord.ReplaceAllString(strings.ToLower(r.method+" "+r.path), "-"), "-")
}

func tag(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if len(parts) > 1 && parts[0] == "api" {
		return parts[1]
	}
	return parts[0]
}

// InProject is the query parameter that chooses among an account's projects.
type InProject struct {
	Project string `query:"project" doc:"project of an account; a key has its own" required:"false"`
}

// empty is an operation without input or output.
type empty struct{}

// body wraps a value as huma's response body.
type body[T any] struct{ Body T }

func answer[T any](v T, err error) (*body[T], error) {
	if err != nil {
		return nil, err
	}
	return &body[T]{v}, nil
}

// kinds is a short hand of the routes table.
type kinds = []access.Kind
