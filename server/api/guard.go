package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"interlock.sh/access"
	"interlock.sh/fault"
	"interlock.sh/internal/ident"
	"interlock.sh/server/auth"
)

const defaultBody = 1 << 20

// rule says who may call a route and how large its body may be.
type rule struct {
	public bool
	kinds  kinds
	bytes  int64 // 0 is defaultBody
}

// The rules of the routes table.
var (
	anyone     = rule{public: true}
	anybody    = rule{kinds: kinds{access.Account, access.SDK, access.TaskProducer, access.TaskWorker, access.Metrics, access.Client, access.Trainer, access.Machine}}
	admins     = rule{kinds: kinds{access.Account}}
	producers  = rule{kinds: kinds{access.Account, access.TaskProducer}}
	workers    = rule{kinds: kinds{access.TaskWorker, access.Machine}}
	machines   = rule{kinds: kinds{access.Machine}}
	enrollers  = rule{kinds: kinds{access.Client, access.Trainer}}
	callers    = rule{kinds: kinds{access.Account, access.SDK}}
	watchers   = rule{kinds: kinds{access.Account, access.SDK, access.TaskProducer}}
	scrapers   = rule{kinds: kinds{access.Metrics}}
	blobGivers = rule{kinds: kinds{access.Account}}
	blobTakers = rule{kinds: kinds{access.Account, access.Machine, access.TaskWorker}}
)

// upTo is the rule with another body limit.
func (r rule) upTo(n int64) rule {
	r.bytes = n
	return r
}

func (r rule) limit() int64 {
	if r.bytes > 0 {
		return r.bytes
	}
	return defaultBody
}

// words is the rule as the documentation shows it.
func (r rule) words() string {
	if r.public {
		return "Needs no credential."
	}
	names := make([]string, len(r.kinds))
	for i, k := range r.kinds {
		names[i] = string(k)
	}
	return "Credential: " + strings.Join(names, ", ") + "."
}

type principalKey struct{}

// caller is who asked. Behind the guard of a route that is not public there always is one.
func caller(ctx context.Context) auth.Principal {
	p, _ := ctx.Value(principalKey{}).(auth.Principal)
	return p
}

// guard lets a request through that the rule allows, with its Principal in the context.
func (a *API) guard(r rule, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.ContentLength > r.limit() {
			a.fail(w, req, tooLarge(req.ContentLength, r.limit()))
			return
		}
		if req.Body != http.NoBody {
			req.Body = timed(w, http.MaxBytesReader(w, req.Body, r.limit()), a.bodyTime(r))
		}
		if r.public {
			next.ServeHTTP(w, req)
			return
		}
		p, err := a.Auth.Authenticate(req.Context(), bearer(req))
		if err == nil && !slices.Contains(r.kinds, p.Kind) {
			err = scopeDenied(p, r)
		}
		if err == nil && p.Kind != access.Account {
			_, err = ownProject(p, req.URL.Query().Get("project"))
		}
		if err != nil {
			a.fail(w, req, err)
			return
		}
		next.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), principalKey{}, p)))
	})
}

func bearer(r *http.Request) string {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// scopeDenied says which kind was presented, which is wanted, and how to get one.
func scopeDenied(p auth.Principal, r rule) error {
	want := make([]string, len(r.kinds))
	for i, k := range r.kinds {
		want[i] = string(k)
	}
	e := fault.New(fault.ScopeDenied, "this credential is of kind %s; the call wants %s", p.Kind, strings.Join(want, " or "))
	for _, k := range r.kinds {
		if slices.Contains(access.ProjectKinds, k) {
			return e.WithHint("make one: interlock keys new --kind %s", k)
		}
	}
	if slices.Contains(r.kinds, access.Account) {
		return e.WithHint("sign in: interlock login")
	}
	return e
}

// project is the project that a request is about: a key's own, or the one that an account names, or
// its only one.
func (a *API) project(ctx context.Context, named string) (string, error) {
	p := caller(ctx)
	if p.Kind != access.Account {
		return ownProject(p, named)
	}
	if named != "" {
		ok, err := a.Auth.Member(ctx, p.Account, named)
		if err != nil {
			return "", err
		}
		if !ok {
			return "", fault.New(fault.NotFound, "account %s has no project %s", p.Label, named).WithHint("list them: interlock projects")
		}
		return named, nil
	}
	mine, err := a.Auth.Projects(ctx, p.Account)
	if err != nil {
		return "", err
	}
	switch len(mine) {
	case 1:
		return mine[0].ID, nil
	case 0:
		return "", fault.New(fault.NotFound, "account %s has no project yet", p.Label).WithHint("make one: interlock projects new <id>")
	}
	return "", fault.New(fault.Invalid, "account %s has %d projects; say which", p.Label, len(mine)).
		WithField("project").WithHint("--project <id>, or ?project=<id>")
}

// ownProject is a key's project. Naming another one is refused on every route, so that a key in the
// wrong place is seen and not silently used for the project that it belongs to.
func ownProject(p auth.Principal, named string) (string, error) {
	if named != "" && named != p.Project {
		return "", fault.New(fault.ScopeDenied, "this credential belongs to project %s, not to %s", p.Project, named).
			WithField("project").WithHint("use a key of project %s, or leave the project out", named)
	}
	return p.Project, nil
}

type requestKey struct{}

// requestOf is the number of the request that a context belongs to, as its answer and the log have it.
func requestOf(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); id != "" && len(id) <= 64 && !strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return id
	}
	return ident.Suffix(12)
}
