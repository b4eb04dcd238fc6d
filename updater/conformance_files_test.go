package updater

import (
	"crypto/sha512"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"interlock.sh/internal/testkit/tufrepo"
)

func TestConformanceRollback(t *testing.T) {
	t.Parallel()
	for _, hashes := range []bool{false, true} {
		for name, run := range map[string]func(c *conform){
			"new_timestamp_version_rollback": func(c *conform) {
				c.repo.Publish(tufrepo.Timestamp)
				c.refresh(true)
				c.repo.Timestamp.Signed.Version = 1
				c.repo.PublishAsIs(tufrepo.Timestamp)
				c.refresh(false)
				c.trusts(1, 2, 1, 1)
			},
			"snapshot_rollback": func(c *conform) {
				c.repo.Publish(tufrepo.Snapshot, tufrepo.Timestamp)
				c.refresh(true)
				c.repo.Snapshot.Signed.Version = 1
				c.repo.PublishAsIs(tufrepo.Snapshot)
				c.repo.Publish(tufrepo.Timestamp)
				c.refresh(false)
				c.trusts(1, 2, 2, 1)
			},
			"targets_rollback": func(c *conform) {
				c.repo.Publish()
				c.refresh(true)
				c.repo.Targets.Signed.Version = 1
				c.repo.PublishAsIs(tufrepo.Targets)
				c.repo.Publish(tufrepo.Snapshot, tufrepo.Timestamp)
				c.refresh(false)
				c.trusts(1, 3, 2, 2)
			},
			"targets_role_removal": func(c *conform) {
				c.repo.Delegate(tufrepo.Delegation{From: tufrepo.Targets, Role: "delegated"})
				c.refresh(true)
				delete(c.repo.Snapshot.Signed.Meta, "delegated.json")
				c.repo.Publish(tufrepo.Snapshot, tufrepo.Timestamp)
				c.refresh(false)
				c.trusts(1, 3, 2, 2)
			},
			"targets_fast_forward_recovery": func(c *conform) {
				c.repo.Delegate(tufrepo.Delegation{From: tufrepo.Targets, Role: "delegated"})
				c.repo.Targets.Signed.Version = 100
				c.repo.PublishAsIs(tufrepo.Targets)
				c.repo.Publish(tufrepo.Snapshot, tufrepo.Timestamp)
				c.refresh(true)
				c.repo.SetKeys(tufrepo.Snapshot, 1, tufrepo.NewKey(c.t))
				c.repo.Targets.Signed.Version = 1
				c.repo.PublishAsIs(tufrepo.Targets)
				delete(c.repo.Snapshot.Signed.Meta, "delegated.json")
				c.repo.Publish(tufrepo.Root, tufrepo.Snapshot, tufrepo.Timestamp)
				c.refresh(true)
				c.trusts(2, 4, 4, 1)
			},
			"new_snapshot_fast_forward_recovery": func(c *conform) {
				c.repo.Snapshot.Signed.Version = 100
				c.repo.PublishAsIs(tufrepo.Snapshot)
				c.repo.Publish(tufrepo.Timestamp)
				c.refresh(true)
				c.repo.SetKeys(tufrepo.Snapshot, 1, tufrepo.NewKey(c.t))
				c.repo.SetKeys(tufrepo.Timestamp, 1, tufrepo.NewKey(c.t))
				c.repo.Snapshot.Signed.Version = 1
				c.repo.PublishAsIs(tufrepo.Snapshot)
				c.repo.Publish(tufrepo.Root, tufrepo.Timestamp)
				c.refresh(true)
				c.trusts(2, 3, 1, 1)
			},
			"new_timestamp_fast_forward_recovery": func(c *conform) {
				c.repo.Timestamp.Signed.Version = 100
				c.repo.PublishAsIs(tufrepo.Timestamp)
				c.refresh(true)
				c.repo.SetKeys(tufrepo.Timestamp, 1, tufrepo.NewKey(c.t))
				c.repo.Timestamp.Signed.Version = 1
				c.repo.PublishAsIs(tufrepo.Timestamp)
				c.repo.Publish(tufrepo.Root)
				c.refresh(true)
				c.trusts(2, 1, 1, 1)
			},
		} {
			t.Run(fmt.Sprintf("%s hashes=%v", name, hashes), func(t *testing.T) {
				t.Parallel()
				c := newConform(t)
				c.repo.Hashes = hashes
				run(c)
			})
		}
	}
	for role, trusted := range map[string][4]int64{tufrepo.Root: {1, 0, 0, 0}, tufrepo.Snapshot: {2, 2, 0, 0}, tufrepo.Targets: {2, 2, 2, 0}} {
		t.Run("url_and_metadata_version_mismatch "+role, func(t *testing.T) {
			t.Parallel()
			c := newConform(t)
			c.repo.Publish(all()...)
			file := "metadata/2." + role + ".json"
			switch role {
			case tufrepo.Root:
				c.repo.Root.Signed.Version = 3
			case tufrepo.Snapshot:
				c.repo.Snapshot.Signed.Version = 3
			case tufrepo.Targets:
				c.repo.Targets.Signed.Version = 3
			}
			c.repo.Put(file, c.repo.Signed(role))
			c.refresh(false)
			c.trusts(trusted[0], trusted[1], trusted[2], trusted[3])
		})
	}
}

// get downloads a path as a program is downloaded.
func (c *conform) get(path string) (string, error) {
	c.t.Helper()
	c.refresh(true)
	file, err := c.last.best.file(path)
	if err != nil {
		return "", err
	}
	to := filepath.Join(c.t.TempDir(), "file")
	if _, err := c.u.downloadFrom(c.t.Context(), &offer{}, c.last.best, file, to); err != nil {
		return "", err
	}
	b, err := os.ReadFile(to)
	return string(b), err
}

func TestConformanceDownload(t *testing.T) {
	t.Parallel()
	t.Run("client_downloads_expected_file", func(t *testing.T) {
		t.Parallel()
		for _, path := range []string{"target_file.txt", "path/to/a/target_file.txt"} {
			c := newConform(t)
			c.repo.AddAt(path, nil, []byte("target file contents"))
			if path == "target_file.txt" { // at the top there is no folder
				for at, b := range c.repo.Files() {
					if rest, ok := strings.CutPrefix(at, "targets/./"); ok {
						c.repo.Put("targets/"+rest, b)
					}
				}
			}
			c.repo.Publish()
			if got, err := c.get(path); err != nil || got != "target file contents" {
				t.Fatalf("%s: %q, %v", path, got, err)
			}
		}
	})
	t.Run("implicit_refresh, nonexistent artifact", func(t *testing.T) {
		t.Parallel()
		c := newConform(t)
		if _, err := c.get("nonexistent artifact"); err == nil {
			t.Fatal("a file that is not there was found")
		}
		c.trusts(1, 1, 1, 1)
	})
	t.Run("repository_substitutes_target_file, multiple_changes_to_target", func(t *testing.T) {
		t.Parallel()
		c := newConform(t)
		for i := range 11 {
			text := fmt.Sprintf("modified file contents %d", i)
			c.repo.AddAt("a/file", nil, []byte(text))
			c.repo.Publish()
			if i%5 != 0 {
				continue
			}
			if got, err := c.get("a/file"); err != nil || got != text {
				t.Fatalf("%q, %v", got, err)
			}
			for at, b := range c.repo.Files() {
				if strings.HasPrefix(at, "targets/") {
					c.repo.Put(at, []byte(strings.Replace(string(b), "modified", "tampered", 1)))
				}
			}
			if got, err := c.get("a/file"); err == nil {
				t.Fatalf("took %q", got)
			}
		}
	})
	for name, hashes := range map[string]func(text string, sha256 metadata.HexBytes) metadata.Hashes{
		"sha256 and sha512": func(text string, sum metadata.HexBytes) metadata.Hashes {
			long := sha512.Sum512([]byte(text))
			return metadata.Hashes{"sha256": sum, "sha512": long[:]}
		},
		"sha512 alone is refused": func(text string, _ metadata.HexBytes) metadata.Hashes {
			long := sha512.Sum512([]byte(text))
			return metadata.Hashes{"sha512": long[:]}
		},
		"download_with_unknown_hash_algorithm": func(_ string, sum metadata.HexBytes) metadata.Hashes {
			return metadata.Hashes{"unknown-hash": sum}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newConform(t)
			c.repo.AddAt("a/file", nil, []byte("text"))
			file := c.repo.Targets.Signed.Targets["a/file"]
			file.Hashes = hashes("text", file.Hashes["sha256"])
			c.repo.Publish()
			got, err := c.get("a/file")
			if good := name == "sha256 and sha512"; (err == nil) != good || good && got != "text" {
				t.Fatalf("%q, %v", got, err)
			}
		})
	}
}

// Our releases stand in the top-level targets alone. Delegated roles are walked as the specification says,
// and no program is ever taken from one.
func TestConformanceDelegations(t *testing.T) {
	t.Parallel()
	type edge = tufrepo.Delegation
	top := func(roles ...string) (out []edge) {
		for _, r := range roles {
			out = append(out, edge{From: tufrepo.Targets, Role: r})
		}
		return out
	}
	for name, c := range map[string]struct {
		edges   []edge
		visited []string
	}{
		"basic-delegation":                                          {top("A"), []string{"A"}},
		"single-level-delegations":                                  {top("A", "B"), []string{"A", "B"}},
		"two-level-delegations":                                     {append(top("A", "B"), edge{From: "B", Role: "C"}), []string{"A", "B", "C"}},
		"two-level-test-DFS-order-of-traversal":                     {append(top("A", "B"), edge{From: "A", Role: "C"}, edge{From: "A", Role: "D"}), []string{"A", "C", "D", "B"}},
		"three-level-delegation-test-DFS-order-of-traversal":        {append(top("A", "B"), edge{From: "A", Role: "C"}, edge{From: "C", Role: "D"}), []string{"A", "C", "D", "B"}},
		"two-level-terminating-ignores-all-but-roles-descendants":   {append(top("A", "B"), edge{From: "A", Role: "C", Terminating: true}, edge{From: "A", Role: "D"}), []string{"A", "C"}},
		"three-level-terminating-ignores-all-but-roles-descendants": {append(top("A", "B"), edge{From: "A", Role: "C", Terminating: true}, edge{From: "C", Role: "D"}), []string{"A", "C", "D"}},
		"two-level-ignores-all-branches-not-matching-paths":         {[]edge{{From: tufrepo.Targets, Role: "A", Paths: []string{"*.py"}}, {From: tufrepo.Targets, Role: "B"}, {From: "A", Role: "C"}}, []string{"B"}},
		"three-level-ignores-all-branches-not-matching-paths":       {append(top("A", "B"), edge{From: "A", Role: "C", Paths: []string{"*.py"}}, edge{From: "C", Role: "D"}), []string{"A", "B"}},
		"cyclic-graph":                                    {append(top("A", "B"), edge{From: "B", Role: "C"}, edge{From: "C", Role: "D"}, edge{From: "D", Role: "B"}), []string{"A", "B", "C", "D"}},
		"two-roles-delegating-to-a-third":                 {append(top("A", "B"), edge{From: "B", Role: "C"}, edge{From: "A", Role: "C"}), []string{"A", "C", "B"}},
		"two-roles-delegating-to-a-third-different-paths": {append(top("A", "B"), edge{From: "B", Role: "C"}, edge{From: "A", Role: "C", Paths: []string{"*.py"}}), []string{"A", "B", "C"}},
		"unusual_role_name":                               {top("?", "#", "/role", "../role"), []string{"%3F", "%23", "%2Frole", "..%2Frole"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newConform(t)
			client.repo.Delegate(c.edges...)
			client.refresh(true)
			client.repo.Requests()
			if _, err := client.last.best.file("missingpath"); err == nil {
				t.Fatal("a file that is not there was found")
			}
			var want []string
			for _, role := range c.visited {
				want = append(want, "metadata/1."+role+".json")
			}
			equal(t, "requests", client.repo.Requests(), want)
		})
	}
	t.Run("targetfile_search", func(t *testing.T) {
		t.Parallel()
		client := newConform(t)
		d := client.repo.Delegate(
			edge{From: tufrepo.Targets, Role: "A", Paths: []string{"*.doc", "*.md", "foo-?.tgz"}}, edge{From: tufrepo.Targets, Role: "B", Paths: []string{"releases/*/*"}},
			edge{From: "B", Role: "C", Paths: []string{"releases/x/*"}}, edge{From: "B", Role: "D", Paths: []string{"releases/y/*.zip"}},
		)
		client.repo.AddAt("targetfile", nil, []byte("x"))
		for path, role := range map[string]string{
			"README.md": "A", "releases/README.md": "A", "foo-1.tgz": "A", "foo-alpha.tgz": "A",
			"releases/x/x_v1": "C", "releases/y/y_v1.zip": "D", "releases/z/z_v1.zip": "D",
		} {
			d.Add(role, path, []byte(path))
		}
		d.Publish()
		client.refresh(true)
		for path, found := range map[string]bool{
			"targetfile": true, "README.md": true, "releases/x/x_v1": true, "releases/y/y_v1.zip": true, "foo-1.tgz": true,
			"releases/z/z_v1.zip": false, "releases/README.md": false, "foo-alpha.tgz": false, "README.MD": false,
		} {
			if _, err := client.last.best.file(path); (err == nil) != found {
				t.Errorf("%s: %v, want found %v", path, err, found)
			}
		}
	})
	t.Run("delegation_not_in_snapshot", func(t *testing.T) {
		t.Parallel()
		client := newConform(t)
		client.repo.Delegate(edge{From: tufrepo.Targets, Role: "delegated"})
		delete(client.repo.Snapshot.Signed.Meta, "delegated.json")
		client.repo.Publish(tufrepo.Snapshot, tufrepo.Timestamp)
		client.refresh(true)
		client.repo.Requests()
		if _, err := client.last.best.file("foo"); err == nil {
			t.Fatal("found")
		}
		equal(t, "requests", client.repo.Requests(), nil)
	})
	t.Run("no program from a delegated role", func(t *testing.T) {
		t.Parallel()
		client := newConform(t)
		d := client.repo.Delegate(edge{From: tufrepo.Targets, Role: "interns", Paths: []string{"*/*/*"}})
		d.Add("interns", "interlock/9.0.0/interlock-linux-amd64", []byte("9.0.0 evil"))
		d.Publish()
		client.refresh(true)
		if got := client.last.best.targets(); len(got) != 0 {
			t.Fatalf("programs %v", got)
		}
	})
}
