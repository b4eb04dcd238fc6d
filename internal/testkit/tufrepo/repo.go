// Package tufrepo makes signed repositories in memory and serves them, so that a test can publish,
// rotate, roll back, and tamper. It is for tests: its keys are made on the spot and never leave it.
package tufrepo

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/theupdateframework/go-tuf/v2/metadata"

	"interlock.sh/fleet/build"
)

// Base is the path that a control plane serves the repository at.
const Base = "/model-worker/tuf"

// The roles.
const (
	Root      = metadata.ROOT
	Timestamp = metadata.TIMESTAMP
	Snapshot  = metadata.SNAPSHOT
	Targets   = metadata.TARGETS
)

// Lives is how long fresh metadata is valid; the root lives RootLives.
const (
	Lives     = 30 * 24 * time.Hour
	RootLives = 2 * 365 * 24 * time.Hour
)

// Key signs.
type Key struct {
	signer signature.Signer
	public *metadata.Key
}

// NewKey makes an ed25519 key.
func NewKey(t testing.TB) Key {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return KeyOf(t, private)
}

// KeyOf is a key of any kind that the specification names: ed25519, ECDSA on P-256, RSA.
func KeyOf(t testing.TB, private crypto.Signer) Key {
	t.Helper()
	var signer signature.Signer
	var err error
	switch k := private.(type) {
	case ed25519.PrivateKey:
		signer, err = signature.LoadSigner(k, crypto.Hash(0))
	case *rsa.PrivateKey:
		signer, err = signature.LoadRSAPSSSigner(k, crypto.SHA256, &rsa.PSSOptions{Hash: crypto.SHA256})
	default:
		signer, err = signature.LoadSigner(private, crypto.SHA256)
	}
	if err != nil {
		t.Fatal(err)
	}
	key, err := metadata.KeyFromPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return Key{signer, key}
}

// Repo is one repository and what it has published. Change the parsed metadata, then Publish.
type Repo struct {
	Root      *metadata.Metadata[metadata.RootType]
	Timestamp *metadata.Metadata[metadata.TimestampType]
	Snapshot  *metadata.Metadata[metadata.SnapshotType]
	Targets   *metadata.Metadata[metadata.TargetsType]
	Hashes    bool // timestamp and snapshot carry length and hash of what they name

	t       testing.TB
	signers map[string][]Key
	bumped  map[string]bool // published before, so that the next one has a higher number

	mu       sync.Mutex
	files    map[string][]byte // by path below Base
	requests []string
}

// New makes a repository with one key a role and publishes its first, empty set.
func New(t testing.TB, now time.Time) *Repo {
	t.Helper()
	expires := now.Add(Lives).UTC().Truncate(time.Second)
	r := &Repo{
		Root: metadata.Root(now.Add(RootLives).UTC().Truncate(time.Second)), Timestamp: metadata.Timestamp(expires), Snapshot: metadata.Snapshot(expires), Targets: metadata.Targets(expires),
		t: t, signers: map[string][]Key{}, bumped: map[string]bool{}, files: map[string][]byte{},
	}
	for _, role := range []string{Root, Timestamp, Snapshot, Targets} {
		r.SetKeys(role, 1, NewKey(t))
	}
	r.Publish()
	return r
}

// SetKeys makes the keys those of a role, with a threshold, and has them all sign it.
func (r *Repo) SetKeys(role string, threshold int, keys ...Key) {
	r.t.Helper()
	r.Root.Signed.Roles[role] = &metadata.Role{KeyIDs: []string{}, Threshold: threshold}
	for _, k := range keys {
		if err := r.Root.Signed.AddKey(k.public, role); err != nil {
			r.t.Fatal(err)
		}
	}
	r.signers[role] = keys
}

// SignWith says which keys sign a role from now on, whatever the root says of them.
func (r *Repo) SignWith(role string, keys ...Key) { r.signers[role] = keys }

// Keys are those that sign a role.
func (r *Repo) Keys(role string) []Key { return slices.Clone(r.signers[role]) }

// Add puts a file into the targets, under the path that its description says.
func (r *Repo) Add(b build.Target, content []byte) {
	r.t.Helper()
	custom, err := json.Marshal(b)
	if err != nil {
		r.t.Fatal(err)
	}
	r.AddAt(b.Path(), custom, content)
}

// AddAt puts a file into the targets under any path, with any description.
func (r *Repo) AddAt(at string, custom, content []byte) {
	r.t.Helper()
	sum := sha256.Sum256(content)
	file := &metadata.TargetFiles{Length: int64(len(content)), Hashes: metadata.Hashes{"sha256": sum[:]}, Path: at}
	if custom != nil {
		raw := json.RawMessage(custom)
		file.Custom = &raw
	}
	r.Targets.Signed.Targets[at] = file
	r.Put("targets/"+path.Dir(at)+"/"+hex.EncodeToString(sum[:])+"."+path.Base(at), content)
}

// Publish signs and publishes roles in the order that a client needs; all of them when none is named, but
// for the root, which is published again only when named. What was published before gets a higher number.
func (r *Repo) Publish(roles ...string) {
	r.t.Helper()
	if len(roles) == 0 {
		roles = []string{Targets, Snapshot, Timestamp}
		if !r.bumped[Root] {
			roles = append(roles, Root)
		}
	}
	for _, role := range []string{Root, Targets, Snapshot, Timestamp} {
		if slices.Contains(roles, role) {
			r.publish(role)
		}
	}
}

func (r *Repo) publish(role string) {
	r.t.Helper()
	bump := func(v *int64) {
		if r.bumped[role] {
			*v++
		}
		r.bumped[role] = true
	}
	switch role {
	case Root:
		bump(&r.Root.Signed.Version)
	case Targets:
		bump(&r.Targets.Signed.Version)
	case Snapshot:
		r.Snapshot.Signed.Meta["targets.json"] = r.meta(Targets, r.Targets.Signed.Version)
		bump(&r.Snapshot.Signed.Version)
	case Timestamp:
		r.Timestamp.Signed.Meta["snapshot.json"] = r.meta(Snapshot, r.Snapshot.Signed.Version)
		bump(&r.Timestamp.Signed.Version)
	}
	r.PublishAsIs(role)
}

// PublishAsIs signs and publishes a role with the numbers that stand in it.
func (r *Repo) PublishAsIs(role string) {
	r.t.Helper()
	r.Put("metadata/"+r.name(role), r.Signed(role))
}

// Signed is the metadata of a role as it would be published now.
func (r *Repo) Signed(role string) []byte {
	r.t.Helper()
	switch role {
	case Root:
		return sign(r.t, r.Root, r.signers[role])
	case Timestamp:
		return sign(r.t, r.Timestamp, r.signers[role])
	case Snapshot:
		return sign(r.t, r.Snapshot, r.signers[role])
	}
	return sign(r.t, r.Targets, r.signers[role])
}

func sign[T metadata.Roles](t testing.TB, m *metadata.Metadata[T], keys []Key) []byte {
	t.Helper()
	m.ClearSignatures()
	for _, k := range keys {
		if _, err := m.Sign(k.signer); err != nil {
			t.Fatal(err)
		}
	}
	b, err := m.ToBytes(false)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// name is the file that a role of the current number is published in.
func (r *Repo) name(role string) string {
	switch role {
	case Root:
		return fmt.Sprintf("%d.root.json", r.Root.Signed.Version)
	case Snapshot:
		return fmt.Sprintf("%d.snapshot.json", r.Snapshot.Signed.Version)
	case Targets:
		return fmt.Sprintf("%d.targets.json", r.Targets.Signed.Version)
	}
	return "timestamp.json"
}

func (r *Repo) meta(role string, version int64) *metadata.MetaFiles {
	m := metadata.MetaFile(version)
	if r.Hashes {
		b := r.File("metadata/" + r.name(role))
		sum := sha256.Sum256(b)
		m.Length, m.Hashes = int64(len(b)), metadata.Hashes{"sha256": sum[:]}
	}
	return m
}

// Put publishes any bytes at a path below Base.
func (r *Repo) Put(at string, b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files[at] = b
}

// Remove takes a published file away.
func (r *Repo) Remove(at string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.files, at)
}

// File is what is published at a path below Base; nil when nothing is.
func (r *Repo) File(at string) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.files[at]
}

// Files is everything that is published, as a mirror would copy it.
func (r *Repo) Files() map[string][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.files)
}

// Requests are the paths below Base that were asked for since the last call.
func (r *Repo) Requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.requests
	r.requests = nil
	return out
}

// ServeHTTP serves what is published below Base.
func (r *Repo) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	at := strings.TrimPrefix(req.URL.EscapedPath(), Base+"/")
	r.mu.Lock()
	b, ok := r.files[at]
	r.requests = append(r.requests, at)
	r.mu.Unlock()
	if !ok {
		http.NotFound(w, req)
		return
	}
	_, _ = w.Write(b) // the client went away
}

// Serve serves the repository as a control plane does.
func (r *Repo) Serve() *httptest.Server { return Serve(r.t, r) }

// Serve runs any handler as a control plane on loopback until the test ends.
func Serve(t testing.TB, h http.Handler) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

// Copy serves a fixed set of files, such as an old one.
func Copy(files map[string][]byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		b, ok := files[strings.TrimPrefix(req.URL.Path, Base+"/")]
		if !ok {
			http.NotFound(w, req)
			return
		}
		_, _ = w.Write(b) // the client went away
	})
}
