package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"

	"interlock.sh/access"
	"interlock.sh/fault"
	"interlock.sh/fleet"
)

func (f *fakeAPI) group(r *http.Request) (*fleet.Status, error) {
	for id, st := range f.groups {
		if want := r.PathValue("group"); want == id || want == st.Group.Name {
			return st, nil
		}
	}
	return nil, fault.New(fault.NotFound, "there is no model group %s", r.PathValue("group")).WithHint("`interlock models list` shows them")
}

// ofGroup makes a handler of a verb on one group.
func (f *fakeAPI) ofGroup(verb func(st *fleet.Status, r *http.Request) (any, error)) handler {
	return func(r *http.Request) (any, error) {
		st, err := f.group(r)
		if err != nil {
			return nil, err
		}
		return verb(st, r)
	}
}

func (f *fakeAPI) bootstrap(st *fleet.Status, role fleet.Role) fleet.BootstrapKey {
	n := len(st.Keys) + 1
	st.Keys = append(st.Keys, fleet.BootstrapKeyView{ID: fmt.Sprintf("bk_%d", n), Role: role, Prefix: "il_boot_B…", CreatedAt: born})
	key := fmt.Sprintf("il_boot_BOOTSECRET%d", n)
	return fleet.BootstrapKey{ID: fmt.Sprintf("bk_%d", n), Role: role, Key: key,
		Line: fmt.Sprintf("export INTERLOCK_MODEL_KEY='%s'\ncurl -fsSL %s/assets/install-model-host.sh | sh -s -- \\\n  --url %s --group %s --role %s\nunset INTERLOCK_MODEL_KEY\n",
			key, f.URL, f.URL, st.Group.Name, role)}
}

func (f *fakeAPI) fleetRoutes(mux *http.ServeMux) {
	f.handle(mux, "GET /api/models/groups", func(*http.Request) (any, error) {
		var groups []fleet.Group
		for _, st := range f.groups {
			groups = append(groups, st.Group)
		}
		return map[string]any{"groups": groups}, nil
	}, access.Account)
	f.handle(mux, "POST /api/models/groups", func(r *http.Request) (any, error) {
		req, err := decode[fleet.NewGroupRequest](r)
		if err != nil {
			return nil, err
		}
		st := &fleet.Status{Group: fleet.Group{ID: req.Name + "-abc123", Name: req.Name, Project: "home", CreatedAt: born}}
		f.groups[st.Group.ID] = st
		return fleet.NewGroup{Group: st.Group, Keys: []fleet.BootstrapKey{f.bootstrap(st, fleet.RoleClient), f.bootstrap(st, fleet.RoleTrainer)}}, nil
	}, access.Account)
	f.handle(mux, "GET /api/models/groups/{group}", f.ofGroup(func(st *fleet.Status, _ *http.Request) (any, error) { return st, nil }), access.Account)
	f.handle(mux, "GET /api/models/groups/{group}/keys", f.ofGroup(func(st *fleet.Status, _ *http.Request) (any, error) {
		return map[string]any{"keys": st.Keys}, nil
	}), access.Account)
	f.handle(mux, "POST /api/models/groups/{group}/keys/{role}/rotate", f.ofGroup(func(st *fleet.Status, r *http.Request) (any, error) {
		return f.bootstrap(st, fleet.Role(r.PathValue("role"))), nil
	}), access.Account)
	f.handle(mux, "POST /api/models/groups/{group}/releases", f.ofGroup(func(st *fleet.Status, r *http.Request) (any, error) {
		req, err := decode[fleet.NewReleaseRequest](r)
		if err != nil {
			return nil, err
		}
		for _, file := range req.Files {
			if f.blobs[file.SHA256] != file.Size {
				return nil, fault.New(fault.ChecksumUnknown, "no stored bytes have the digest %s", file.SHA256)
			}
		}
		rel := fleet.Release{ID: "rel_1", Group: st.Group.ID, Name: req.Name, Runtime: req.Runtime, Files: req.Files, Args: req.Args,
			ContextLength: req.ContextLength, Slots: req.Slots, License: req.License, Digest: strings.Repeat("d", 64), CreatedAt: born}
		st.Releases = append(st.Releases, rel)
		return rel, nil
	}), access.Account)
	f.handle(mux, "POST /api/models/groups/{group}/deployments", f.ofGroup(func(st *fleet.Status, r *http.Request) (any, error) {
		req, err := decode[fleet.NewDeploymentRequest](r)
		d := fleet.Deployment{ID: "dep_1", Group: st.Group.ID, Alias: req.Alias, Release: req.Release, Settings: req.Settings.Apply(fleet.Settings{}),
			Route: "ai.self-hosted." + req.Alias, CreatedAt: born}
		st.Deployments = append(st.Deployments, d)
		return d, err
	}), access.Account)
	f.handle(mux, "DELETE /api/models/groups/{group}/deployments/{alias}", f.ofGroup(func(st *fleet.Status, r *http.Request) (any, error) {
		st.Deployments[0].RetiredAt = &born
		return st.Deployments[0], nil
	}), access.Account)
	f.handle(mux, "PUT /api/models/groups/{group}/channels/{channel}", f.ofGroup(func(st *fleet.Status, r *http.Request) (any, error) {
		req, err := decode[fleet.SetChannelRequest](r)
		c := fleet.Channel{Name: r.PathValue("channel"), Alias: req.Alias, UpdatedAt: born}
		st.Channels = append(st.Channels, c)
		return c, err
	}), access.Account)
	f.handle(mux, "GET /api/machines", func(*http.Request) (any, error) {
		return map[string]any{"machines": []fleet.Machine{machine(fleet.Active)}}, nil
	}, access.Account)
	f.handle(mux, "POST /api/machines/{id}/{verb}", func(r *http.Request) (any, error) {
		return machine(map[string]fleet.Mode{"pause": fleet.Paused, "drain": fleet.Draining}[r.PathValue("verb")]), nil
	}, access.Account)
}

// machine has a name that tries to colour the terminal, and figures that are not known.
func machine(mode fleet.Mode) fleet.Machine {
	return fleet.Machine{
		ID: "mac_1", Name: "garage\x1b[31m-mac", Group: "my-model-abc123", GroupName: "my-model", Role: fleet.RoleClient, Mode: mode,
		State: fleet.State{Kind: fleet.StateReady}, EnrolledAt: born,
		Deployments: []fleet.DeploymentReport{
			{Alias: "tiny", Slots: 2, Busy: 1, State: fleet.State{Kind: fleet.StateReady}},
			{Alias: "big", Slots: 64, State: fleet.State{Kind: fleet.StateBlocked, Detail: "memory: the model needs 40 GiB"}},
			{Alias: "new", Slots: 1, State: fleet.State{Kind: fleet.StateDownloading}, Downloaded: 41, Total: 100},
		},
	}
}

func (f *fakeAPI) blobRoutes(mux *http.ServeMux) {
	f.handle(mux, "POST /api/blobs/uploads", func(*http.Request) (any, error) {
		id := fmt.Sprintf("up_%d", len(f.uploads)+1)
		f.uploads[id] = nil
		return map[string]any{"uploadId": id, "offset": 0, "chunkBytes": 1 << 20}, nil
	}, access.Account)
	f.handle(mux, "PUT /api/blobs/uploads/{id}", func(r *http.Request) (any, error) {
		body, err := io.ReadAll(r.Body)
		id := r.PathValue("id")
		f.uploads[id] = append(f.uploads[id], body...)
		return map[string]any{"offset": len(f.uploads[id])}, err
	}, access.Account)
	f.handle(mux, "POST /api/blobs/uploads/{id}/finish", func(r *http.Request) (any, error) {
		data := f.uploads[r.PathValue("id")]
		sum := sha256.Sum256(data)
		digest := hex.EncodeToString(sum[:])
		f.blobs[digest] = int64(len(data))
		return map[string]any{"sha256": digest, "size": len(data)}, nil
	}, access.Account)
}
