package tufrepo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"path"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"
)

// Delegation is a role that a targets role hands a part of its paths to.
type Delegation struct {
	From, Role  string
	Paths       []string // none is all
	Terminating bool
}

// Delegated are the repository's delegated roles, and how they are signed and published.
type Delegated struct {
	repo  *Repo
	roles map[string]*metadata.Metadata[metadata.TargetsType]
	keys  map[string]Key
}

// Delegate adds delegated roles, each with a key of its own, and publishes the whole set.
func (r *Repo) Delegate(delegations ...Delegation) *Delegated {
	r.t.Helper()
	d := &Delegated{r, map[string]*metadata.Metadata[metadata.TargetsType]{Targets: r.Targets}, map[string]Key{}}
	for _, g := range delegations {
		if d.roles[g.Role] == nil {
			d.roles[g.Role] = metadata.Targets(r.Targets.Signed.Expires)
			d.keys[g.Role] = NewKey(r.t)
		}
		from := &d.roles[g.From].Signed
		if from.Delegations == nil {
			from.Delegations = &metadata.Delegations{Keys: map[string]*metadata.Key{}, Roles: []metadata.DelegatedRole{}}
		}
		paths := g.Paths
		if paths == nil {
			paths = []string{"*"}
		}
		from.Delegations.Roles = append(from.Delegations.Roles, metadata.DelegatedRole{
			Name: g.Role, KeyIDs: []string{}, Threshold: 1, Terminating: g.Terminating, Paths: paths,
		})
		if err := from.AddKey(d.keys[g.Role].public, g.Role); err != nil {
			r.t.Fatal(err)
		}
	}
	d.Publish()
	return d
}

// Add puts a file into a delegated role.
func (d *Delegated) Add(role, at string, content []byte) {
	d.repo.t.Helper()
	sum := sha256.Sum256(content)
	d.roles[role].Signed.Targets[at] = &metadata.TargetFiles{Length: int64(len(content)), Hashes: metadata.Hashes{"sha256": sum[:]}, Path: at}
	d.repo.Put("targets/"+path.Dir(at)+"/"+hex.EncodeToString(sum[:])+"."+path.Base(at), content)
}

// SignWith has another key sign a delegated role from now on.
func (d *Delegated) SignWith(role string, k Key) { d.keys[role] = k }

// Expire sets when a delegated role expires.
func (d *Delegated) Expire(role string, at time.Time) { d.roles[role].Signed.Expires = at }

// Publish signs and publishes the delegated roles with the numbers that stand in them, and then the set.
func (d *Delegated) Publish() {
	d.repo.t.Helper()
	for role, m := range d.roles {
		if role == Targets {
			continue
		}
		name := url.PathEscape(role)
		d.repo.Put(fmt.Sprintf("metadata/%d.%s.json", m.Signed.Version, name), sign(d.repo.t, m, []Key{d.keys[role]}))
		d.repo.Snapshot.Signed.Meta[role+".json"] = metadata.MetaFile(m.Signed.Version)
	}
	d.repo.Publish()
}
