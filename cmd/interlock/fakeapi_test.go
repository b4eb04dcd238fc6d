package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"interlock.sh/access"
	"interlock.sh/fault"
	"interlock.sh/fleet"
)

// The credentials that the fake control plane knows. The words are chosen so that a search for them in
// any output finds a leak.
const (
	ownerToken   = "il_own_OWNERSECRET"
	accountToken = "il_acc_ACCOUNTSECRET"
	sdkKey       = "il_sdk_SDKSECRET"
)

var born = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fakeAPI answers as a control plane does, from memory.
type fakeAPI struct {
	*httptest.Server
	mu        sync.Mutex
	ownerUsed bool
	account   string
	projects  []access.Project
	keys      []access.KeyView
	groups    map[string]*fleet.Status
	uploads   map[string][]byte
	blobs     map[string]int64
	submitted []json.RawMessage
	cancelled bool
	streams   chan struct{} // one value for each run stream that was opened
}

func newFakeAPI(t testing.TB) *fakeAPI {
	f := &fakeAPI{groups: map[string]*fleet.Status{}, uploads: map[string][]byte{}, blobs: map[string]int64{}, streams: make(chan struct{}, 16)}
	mux := http.NewServeMux()
	f.accountRoutes(mux)
	f.fleetRoutes(mux)
	f.blobRoutes(mux)
	f.taskRoutes(mux)
	f.runRoutes(mux)
	f.Server = httptest.NewUnstartedServer(mux) // so that the handlers never see it half made
	f.Start()
	t.Cleanup(func() { f.CloseClientConnections(); f.Close() })
	return f
}

type handler func(r *http.Request) (any, error)

// handle serves one route to the kinds of credentials named.
func (f *fakeAPI) handle(mux *http.ServeMux, pattern string, h handler, kinds ...access.Kind) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock() // for the encoding too: answers point into what others change
		defer f.mu.Unlock()
		out, err := any(nil), f.authorize(r, kinds)
		if err == nil {
			out, err = h(r)
		}
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			w.WriteHeader(fault.CodeOf(err).Status())
			out = map[string]any{"error": fault.Of(err)}
		}
		_ = json.NewEncoder(w).Encode(out)
	})
}

func kindOf(r *http.Request) access.Kind {
	switch strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") {
	case accountToken:
		return access.Account
	case sdkKey:
		return access.SDK
	}
	return ""
}

func (f *fakeAPI) authorize(r *http.Request, kinds []access.Kind) error {
	have := kindOf(r)
	if len(kinds) == 0 {
		return nil
	}
	for _, k := range kinds {
		if have == k {
			return nil
		}
	}
	if have == "" {
		return fault.New(fault.Unauthenticated, "the credential is not known")
	}
	return fault.New(fault.ScopeDenied, "a key of kind %s may not do this", have)
}

func decode[T any](r *http.Request) (T, error) {
	var v T
	if err := json.NewDecoder(r.Body).Decode(&v); err != nil {
		return v, fault.New(fault.Malformed, "bad body: %v", err)
	}
	return v, nil
}

func (f *fakeAPI) accountRoutes(mux *http.ServeMux) {
	f.handle(mux, "POST /api/login", func(r *http.Request) (any, error) {
		req, err := decode[access.LoginRequest](r)
		if err != nil {
			return nil, err
		}
		switch {
		case req.Token == ownerToken && !f.ownerUsed:
			f.ownerUsed, f.account = true, cmp.Or(req.Name, "owner")
			return access.LoginResponse{Token: accountToken, Account: f.account}, nil
		case req.Token == accountToken:
			return access.LoginResponse{Token: accountToken, Account: f.account}, nil
		}
		return nil, fault.New(fault.Unauthenticated, "that token is not known, or was used already").
			WithHint("make a new one with `interlock admin owner-token`")
	})
	f.handle(mux, "GET /api/whoami", func(r *http.Request) (any, error) {
		if kindOf(r) == access.SDK {
			return access.Whoami{Kind: access.SDK, Project: "home", Label: "app", Scopes: access.SDK.Scopes(), Version: "0.1.0"}, nil
		}
		return access.Whoami{Kind: access.Account, Account: f.account, Projects: f.projects, Scopes: access.Account.Scopes(), Version: "0.1.0"}, nil
	}, access.Account, access.SDK)
	f.handle(mux, "GET /api/projects", func(*http.Request) (any, error) {
		return map[string]any{"projects": f.projects}, nil
	}, access.Account)
	f.handle(mux, "POST /api/projects", func(r *http.Request) (any, error) {
		req, err := decode[access.NewProjectRequest](r)
		p := access.Project{ID: req.ID, Name: req.Name, CreatedAt: born}
		f.projects = append(f.projects, p)
		return p, err
	}, access.Account)
	f.handle(mux, "GET /api/projects/{project}/keys", func(*http.Request) (any, error) {
		return map[string]any{"keys": f.keys}, nil
	}, access.Account)
	f.handle(mux, "POST /api/projects/{project}/keys", func(r *http.Request) (any, error) {
		req, err := decode[access.NewKeyRequest](r)
		return f.newKey(r.PathValue("project"), req.Kind, req.Label), err
	}, access.Account)
	find := func(r *http.Request) (*access.KeyView, error) {
		for i := range f.keys {
			if f.keys[i].ID == r.PathValue("id") {
				return &f.keys[i], nil
			}
		}
		return nil, fault.New(fault.NotFound, "project %s has no key %s", r.PathValue("project"), r.PathValue("id"))
	}
	f.handle(mux, "POST /api/projects/{project}/keys/{id}/roll", func(r *http.Request) (any, error) {
		k, err := find(r)
		if err != nil {
			return nil, err
		}
		return f.newKey(k.Project, k.Kind, k.Label), nil
	}, access.Account)
	f.handle(mux, "DELETE /api/projects/{project}/keys/{id}", func(r *http.Request) (any, error) {
		k, err := find(r)
		if err != nil {
			return nil, err
		}
		k.RevokedAt = &born
		return *k, nil
	}, access.Account)
}

func (f *fakeAPI) newKey(project string, kind access.Kind, label string) access.NewKey {
	v := access.KeyView{
		ID: fmt.Sprintf("key_%d", len(f.keys)+1), Project: project, Kind: kind, Label: label, Prefix: "il_new_KE…",
		Scopes: kind.Scopes(), CreatedAt: born,
	}
	f.keys = append(f.keys, v)
	return access.NewKey{KeyView: v, Key: fmt.Sprintf("il_new_KEYSECRET%d", len(f.keys))}
}
