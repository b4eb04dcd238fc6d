package plane

import (
	"path/filepath"
	"testing"

	"interlock.sh/client"
	"interlock.sh/fleet"
	"interlock.sh/internal/testkit/gguftiny"
)

// Group is a registered model group with the text of its bootstrap keys.
type Group struct {
	ID, Name string
	Keys     map[fleet.Role]string
}

// NewGroup registers a group in the project of the owner's client c; nil is the plane's own project.
func (p *Plane) NewGroup(c *client.Client, name string) Group {
	p.t.Helper()
	if c == nil {
		c = p.Owner
	}
	g, err := c.RegisterGroup(p.t.Context(), fleet.NewGroupRequest{Name: name})
	if err != nil {
		p.t.Fatal("register group:", err)
	}
	out := Group{ID: g.Group.ID, Name: name, Keys: map[fleet.Role]string{}}
	for _, k := range g.Keys {
		out.Keys[k.Role] = k.Key
	}
	return out
}

// TinyModel writes a model of so many shards and returns its files.
func TinyModel(t testing.TB, seed uint64, shards int) []string {
	t.Helper()
	files, err := gguftiny.Write(filepath.Join(t.TempDir(), "tiny.gguf"), seed, gguftiny.Options{Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Upload stores files in the project of c and names them as a release does.
func (p *Plane) Upload(c *client.Client, paths ...string) []fleet.File {
	p.t.Helper()
	var out []fleet.File
	for _, path := range paths {
		ref, err := c.Upload(p.t.Context(), path, client.Transfer{})
		if err != nil {
			p.t.Fatal("upload:", err)
		}
		out = append(out, fleet.File{Name: filepath.Base(path), SHA256: ref.SHA256, Size: ref.Size})
	}
	return out
}

// Deploy uploads a tiny model, makes a release of it and deploys it under the alias. Aliases with the
// same seed have the same bytes.
func (p *Plane) Deploy(c *client.Client, g Group, alias string, seed uint64) fleet.Deployment {
	p.t.Helper()
	if c == nil {
		c = p.Owner
	}
	_, err := c.CreateRelease(p.t.Context(), g.ID, fleet.NewReleaseRequest{
		Name: "of-" + alias, Files: p.Upload(c, TinyModel(p.t, seed, 1)...), License: "test", Slots: 2,
	})
	if err != nil {
		p.t.Fatal("create release:", err)
	}
	d, err := c.Deploy(p.t.Context(), g.ID, fleet.NewDeploymentRequest{Release: "of-" + alias, Alias: alias})
	if err != nil {
		p.t.Fatal("deploy:", err)
	}
	return d
}
