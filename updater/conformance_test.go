package updater

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"interlock.sh/internal/testkit/tufrepo"
)

// The cases of the public suite for clients of The Update Framework (theupdateframework/tuf-conformance),
// re-made against this package. The names of the cases are the suite's.

// conform is a client with the first root of a repository, and nothing else.
type conform struct {
	t     *testing.T
	repo  *tufrepo.Repo
	clock *leap
	u     *Updater
	last  *offer
}

func newConform(t *testing.T) *conform {
	t.Helper()
	c := &conform{t: t, repo: tufrepo.New(t, born), clock: &leap{now: born}}
	c.begin(c.repo.File("metadata/1.root.json"))
	return c
}

// begin trusts a root.
func (c *conform) begin(root []byte) {
	c.t.Helper()
	app := filepath.Join(c.t.TempDir(), "app")
	u, err := New(Options{App: app, Clock: c.clock, Origins: []Origin{origin(c.t, c.repo.Serve())}})
	must(c.t, err)
	must(c.t, os.MkdirAll(u.folder.trust(), 0o700))
	must(c.t, os.WriteFile(u.folder.rootFile(), root, 0o600))
	must(c.t, os.WriteFile(filepath.Join(u.folder.trust(), firstRoot), root, 0o600)) // as pinning leaves it
	c.u = u
}

// refresh must end as said.
func (c *conform) refresh(good bool) {
	c.t.Helper()
	st, _, err := c.u.folder.load()
	must(c.t, err)
	if c.last, err = c.u.fetch(c.t.Context(), &st); (err == nil) != good {
		c.t.Fatalf("refresh: %v, want good %v", err, good)
	}
}

// trusts compares what the client holds of each role; 0 is nothing.
func (c *conform) trusts(root, timestamp, snapshot, targets int64) {
	c.t.Helper()
	for i, role := range []string{tufrepo.Root, tufrepo.Timestamp, tufrepo.Snapshot, tufrepo.Targets} {
		want := []int64{root, timestamp, snapshot, targets}[i]
		if got := c.version(role); got != want {
			c.t.Fatalf("%s is %d, want %d", role, got, want)
		}
	}
}

func (c *conform) held(role string) []byte {
	b, err := os.ReadFile(filepath.Join(c.u.folder.mirror(c.u.Origins[0]), role+".json"))
	if err != nil {
		return nil
	}
	return b
}

func (c *conform) version(role string) int64 {
	c.t.Helper()
	var m struct {
		Signed struct {
			Version int64 `json:"version"`
		} `json:"signed"`
	}
	b := c.held(role)
	if b == nil {
		return 0
	}
	must(c.t, json.Unmarshal(b, &m))
	return m.Signed.Version
}

func all() []string {
	return []string{tufrepo.Root, tufrepo.Targets, tufrepo.Snapshot, tufrepo.Timestamp}
}

func TestConformanceBasic(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(c *conform){
		"basic_refresh_requests": func(c *conform) {
			c.refresh(true)
			equal(c.t, "requests", c.repo.Requests(), []string{"metadata/2.root.json", "metadata/timestamp.json", "metadata/1.snapshot.json", "metadata/1.targets.json"})
		},
		"basic_refresh_trusted_data, metadata_bytes_match": func(c *conform) {
			odd := append(c.repo.File("metadata/timestamp.json"), ' ')
			c.repo.Put("metadata/timestamp.json", odd)
			c.refresh(true)
			if string(c.held("timestamp")) != string(odd) || string(c.held("root")) != string(c.repo.File("metadata/1.root.json")) {
				c.t.Error("what is held is not what was sent, byte by byte")
			}
		},
		"invalid_initial_root": func(c *conform) {
			c.begin([]byte(strings.Replace(string(c.repo.File("metadata/1.root.json")), `"version":1`, `"other":1`, 1)))
			c.refresh(false)
			equal(c.t, "requests", c.repo.Requests(), nil)
		},
		"unsigned_initial_root": func(c *conform) {
			c.repo.SignWith(tufrepo.Root, tufrepo.NewKey(c.t))
			c.begin(c.repo.Signed(tufrepo.Root))
			c.refresh(false)
			equal(c.t, "requests", c.repo.Requests(), nil)
		},
		"timestamp_content_changes": func(c *conform) {
			c.refresh(true)
			c.repo.Timestamp.Signed.Meta["snapshot.json"].Version = 100
			c.repo.PublishAsIs(tufrepo.Timestamp)
			c.repo.Requests()
			c.refresh(true)
			if r := c.repo.Requests(); r[len(r)-1] != "metadata/timestamp.json" {
				c.t.Errorf("requests %v", r)
			}
			if strings.Contains(string(c.held("timestamp")), `"version":100`) {
				c.t.Error("the changed timestamp is held")
			}
		},
		"basic_metadata_hash_support": func(c *conform) {
			c.repo.Hashes = true
			c.repo.Publish()
			c.refresh(true)
		},
		"targets_hash_mismatch": func(c *conform) {
			c.repo.Hashes = true
			c.repo.Publish()
			c.refresh(true)
			c.repo.Publish(tufrepo.Targets)
			c.repo.Put("metadata/3.targets.json", append(c.repo.File("metadata/3.targets.json"), ' '))
			good := c.repo.File("metadata/3.targets.json")
			c.repo.Publish(tufrepo.Snapshot, tufrepo.Timestamp)
			c.repo.Put("metadata/3.targets.json", append(good[:len(good)-1:len(good)-1], '\n'))
			c.refresh(false)
			c.trusts(1, 3, 3, 2)
		},
		"snapshot_hash_mismatch": func(c *conform) {
			c.repo.Hashes = true
			c.repo.Publish()
			c.refresh(true)
			c.repo.Publish()
			c.repo.Put("metadata/3.snapshot.json", append(c.repo.File("metadata/3.snapshot.json"), ' '))
			c.refresh(false)
			c.trusts(1, 3, 2, 2)
		},
		"custom_fields": func(c *conform) {
			c.refresh(true)
			c.repo.Root.Signed.UnrecognizedFields = map[string]any{"custom-field": "value"}
			c.repo.Root.Signed.Roles[tufrepo.Root].UnrecognizedFields = map[string]any{"another-field": map[string]any{"a": 1}}
			c.repo.Publish(tufrepo.Root)
			c.refresh(true)
			c.trusts(2, 1, 1, 1)
		},
		"snapshot_404": func(c *conform) {
			c.refresh(true)
			c.repo.Timestamp.Signed.Meta["snapshot.json"].Version = 2
			c.repo.Timestamp.Signed.Version = 2
			c.repo.PublishAsIs(tufrepo.Timestamp)
			c.refresh(false)
			c.trusts(1, 2, 1, 1)
		},
		"targets_404": func(c *conform) {
			c.refresh(true)
			c.repo.Targets.Signed.Version = 2
			c.repo.Publish(tufrepo.Snapshot, tufrepo.Timestamp)
			c.refresh(false)
			c.trusts(1, 2, 2, 1)
		},
		"timestamp_404": func(c *conform) {
			c.refresh(true)
			c.repo.Remove("metadata/timestamp.json")
			c.refresh(false)
			c.trusts(1, 1, 1, 1)
		},
		"incorrect_metadata_type": func(c *conform) {
			c.repo.SetKeys(tufrepo.Snapshot, 1, append(c.repo.Keys(tufrepo.Snapshot), c.repo.Keys(tufrepo.Timestamp)...)...)
			c.repo.Publish(tufrepo.Root)
			c.repo.Snapshot.Signed.Meta = map[string]*metadata.MetaFiles{"snapshot.json": metadata.MetaFile(1)}
			c.repo.Put("metadata/timestamp.json", c.repo.Signed(tufrepo.Snapshot))
			c.refresh(false)
			c.trusts(2, 0, 0, 0)
		},
		"faketime": func(c *conform) {
			c.repo.Root.Signed.Expires = born.Add(7 * 24 * time.Hour)
			c.repo.Publish(tufrepo.Root)
			c.refresh(true)
			c.clock.Advance(8 * 24 * time.Hour)
			c.refresh(false)
		},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(newConform(t)) })
	}
	for role, trusted := range map[string][4]int64{
		tufrepo.Root: {1, 0, 0, 0}, tufrepo.Timestamp: {2, 0, 0, 0}, tufrepo.Snapshot: {2, 2, 0, 0}, tufrepo.Targets: {2, 2, 2, 0},
	} {
		t.Run("unsigned_metadata "+role, func(t *testing.T) {
			t.Parallel()
			c := newConform(t)
			c.repo.SignWith(role)
			c.repo.Publish(all()...)
			c.refresh(false)
			c.trusts(trusted[0], trusted[1], trusted[2], trusted[3])
		})
	}
}
