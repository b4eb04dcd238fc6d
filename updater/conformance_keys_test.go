package updater

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"interlock.sh/internal/testkit/tufrepo"
)

// signedBy is one version of a role: the keys that the root names for it, and those that signed it.
type signedBy struct {
	keys      []int
	threshold int
	sigs      []int
}

func pickKeys(keys []tufrepo.Key, which []int) []tufrepo.Key {
	out := make([]tufrepo.Key, len(which))
	for i, n := range which {
		out[i] = keys[n]
	}
	return out
}

func TestConformanceRootRotation(t *testing.T) {
	t.Parallel()
	five := []int{0, 1, 2, 3, 4}
	for name, c := range map[string]struct {
		versions []signedBy
		bad      bool // the last one must be refused
	}{
		"1-of-1-key-rotation": {versions: []signedBy{{[]int{1}, 1, []int{1}}, {[]int{2}, 1, []int{2, 1}}, {[]int{2}, 1, []int{2}}}},
		"1-of-1-key-rotation-unused-signatures": {versions: []signedBy{
			{[]int{1}, 1, []int{3, 1, 4}}, {[]int{2}, 1, []int{3, 2, 1, 4}}, {[]int{2}, 1, []int{3, 2, 4}},
		}},
		"3-of-5-sign-with-different-keycombos": {versions: []signedBy{
			{five, 3, []int{0, 2, 4}}, {five, 3, []int{0, 4, 1}}, {five, 3, []int{0, 1, 3}}, {five, 3, []int{0, 1, 3}},
		}},
		"3-of-5-one-key-rotated": {versions: []signedBy{{five, 3, []int{0, 2, 4}}, {[]int{0, 1, 3, 4, 5}, 3, []int{0, 4, 1}}}},
		"3-of-5-one-key-rotated-with-intermediate-step": {versions: []signedBy{
			{five, 3, []int{0, 2, 4}}, {[]int{0, 1, 3, 4, 5}, 3, []int{0, 2, 4, 5}}, {[]int{0, 1, 3, 4, 5}, 3, []int{0, 4, 5}},
		}},
		"3-of-5-all-keys-rotated-with-intermediate-step": {versions: []signedBy{
			{five, 3, []int{0, 2, 4}}, {[]int{5, 6, 7, 8, 9}, 3, []int{0, 2, 4, 5, 6, 7}}, {[]int{5, 6, 7, 8, 9}, 3, []int{5, 6, 7}},
		}},
		"1-of-3-threshold-increase-to-2-of-3": {versions: []signedBy{{[]int{1, 2, 3}, 1, []int{1}}, {[]int{1, 2, 3}, 2, []int{1, 2}}}},
		"2-of-3-threshold-decrease-to-1-of-3": {versions: []signedBy{
			{[]int{1, 2, 3}, 2, []int{1, 2}}, {[]int{1, 2, 3}, 1, []int{1, 2}}, {[]int{1, 2, 3}, 1, []int{1}},
		}},
		"1-of-2-threshold-increase-to-2-of-2":              {versions: []signedBy{{[]int{1}, 1, []int{1}}, {[]int{1, 2}, 2, []int{1, 2}}}},
		"1-of-1-key-rotation-fail-not-signed-with-old-key": {versions: []signedBy{{[]int{1}, 1, []int{1}}, {[]int{2}, 1, []int{2, 3, 4}}}, bad: true},
		"1-of-1-key-rotation-fail-not-signed-with-new-key": {versions: []signedBy{{[]int{1}, 1, []int{1}}, {[]int{2}, 1, []int{1, 3, 4}}}, bad: true},
		"3-of-5-one-key-rotate-fails-not-signed-with-3-new-keys": {
			versions: []signedBy{{five, 3, []int{0, 2, 4}}, {[]int{0, 1, 3, 4, 5}, 3, []int{0, 2, 4}}}, bad: true,
		},
		"3-of-5-one-key-rotate-fails-not-signed-with-3-old-keys": {
			versions: []signedBy{{five, 3, []int{0, 2, 4}}, {[]int{0, 1, 3, 4, 5}, 3, []int{0, 4, 5}}}, bad: true,
		},
		"1-of-3-threshold-bump-to-2-of-3-fails-new-threshold-not-reached": {
			versions: []signedBy{{[]int{1, 2, 3}, 1, []int{1}}, {[]int{1, 2, 3}, 2, []int{2}}}, bad: true,
		},
		"2-of-3-threshold-decr-to-1-of-3-fails-old-threshold-not-reached": {
			versions: []signedBy{{[]int{1, 2, 3}, 2, []int{1, 2}}, {[]int{1, 2, 3}, 1, []int{1}}}, bad: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newConform(t)
			keys := make([]tufrepo.Key, 10)
			for i := range keys {
				keys[i] = tufrepo.NewKey(t)
			}
			for i, v := range c.versions {
				client.repo.SetKeys(tufrepo.Root, v.threshold, pickKeys(keys, v.keys)...)
				client.repo.SignWith(tufrepo.Root, pickKeys(keys, v.sigs)...)
				client.repo.Root.Signed.Version = int64(i + 1)
				client.repo.PublishAsIs(tufrepo.Root)
			}
			client.repo.Publish()
			client.begin(client.repo.File("metadata/1.root.json"))
			client.refresh(!c.bad)
			want := int64(len(c.versions))
			if c.bad {
				want--
			}
			if got := client.version(tufrepo.Root); got != want {
				t.Fatalf("root is %d, want %d", got, want)
			}
			if _, kept, err := client.u.folder.root(nil); err != nil || kept.Signed.Version != want {
				t.Fatalf("the kept root of trust: %v", err)
			}
		})
	}
}

func TestConformanceNonRootRotations(t *testing.T) {
	t.Parallel()
	five, other := []int{0, 1, 2, 3, 4}, []int{0, 1, 3, 4, 5}
	for name, c := range map[string]struct {
		signedBy
		bad bool
	}{
		"1-of-1-key-rotation":                                            {signedBy{[]int{2}, 1, []int{2}}, false},
		"1-of-1-key-rotation-unused-signatures":                          {signedBy{[]int{1}, 1, []int{3, 1, 4}}, false},
		"1-of-1-key-rotation-fail-not-signed-with-new-key":               {signedBy{[]int{2}, 1, []int{1, 3, 4}}, true},
		"3-of-5-one-key-signature-wrong-not-signed-with-3-expected-keys": {signedBy{other, 3, []int{0, 2, 4}}, true},
		"2-of-5-one-key-signature-missing-threshold-not-reached":         {signedBy{other, 3, []int{0, 4}}, true},
		"3-of-5-sign-first-combo":                                        {signedBy{five, 3, []int{0, 2, 4}}, false},
		"3-of-5-sign-second-combo":                                       {signedBy{five, 3, []int{0, 4, 1}}, false},
		"3-of-5-sign-third-combo":                                        {signedBy{five, 3, []int{0, 1, 3}}, false},
		"3-of-5-sign-fourth-combo":                                       {signedBy{five, 3, []int{1, 2, 3}}, false},
		"3-of-5-sign-fifth-combo":                                        {signedBy{five, 3, []int{2, 3, 4}}, false},
	} {
		for _, role := range []string{tufrepo.Timestamp, tufrepo.Snapshot, tufrepo.Targets} {
			t.Run(role+" "+name, func(t *testing.T) {
				t.Parallel()
				client := newConform(t)
				keys := make([]tufrepo.Key, 10)
				for i := range keys {
					keys[i] = tufrepo.NewKey(t)
				}
				client.repo.SetKeys(role, c.threshold, pickKeys(keys, c.keys)...)
				client.repo.SignWith(role, pickKeys(keys, c.sigs)...)
				client.repo.Publish(all()...)
				client.refresh(!c.bad)
			})
		}
	}
}

// edit changes the JSON of a published file.
func edit(t *testing.T, r *tufrepo.Repo, at string, change func(m map[string]any)) {
	t.Helper()
	var m map[string]any
	must(t, json.Unmarshal(r.File(at), &m))
	change(m)
	b, err := json.Marshal(m)
	must(t, err)
	r.Put(at, b)
}

func TestConformanceKeys(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(c *conform){
		"snapshot_does_not_meet_threshold": func(c *conform) {
			keys := []tufrepo.Key{tufrepo.NewKey(c.t), tufrepo.NewKey(c.t), tufrepo.NewKey(c.t)}
			c.repo.SetKeys(tufrepo.Snapshot, 3, keys...)
			c.repo.Publish(all()...)
			c.refresh(true)
			c.repo.SignWith(tufrepo.Snapshot, keys[:2]...)
			c.repo.Publish()
			c.refresh(false)
			c.trusts(2, 3, 2, 2)
		},
		"snapshot_has_too_few_keys": func(c *conform) {
			c.repo.SetKeys(tufrepo.Snapshot, 6, tufrepo.NewKey(c.t), tufrepo.NewKey(c.t), tufrepo.NewKey(c.t), tufrepo.NewKey(c.t), tufrepo.NewKey(c.t))
			c.repo.Publish(all()...)
			c.refresh(false)
			c.trusts(2, 2, 0, 0)
		},
		"duplicate_keys": func(c *conform) {
			k := tufrepo.NewKey(c.t)
			c.repo.SetKeys(tufrepo.Snapshot, 6, k)
			role := c.repo.Root.Signed.Roles[tufrepo.Snapshot]
			for range 8 {
				role.KeyIDs = append(role.KeyIDs, role.KeyIDs[0])
			}
			c.repo.SignWith(tufrepo.Snapshot, k, k, k, k, k, k)
			c.repo.Publish(all()...)
			c.refresh(false)
			if c.version(tufrepo.Snapshot) != 0 {
				c.t.Error("a snapshot that one key signed six times is held")
			}
		},
		"duplicate_sig_keyids": func(c *conform) {
			edit(c.t, c.repo, "metadata/1.snapshot.json", func(m map[string]any) {
				s := m["signatures"].([]any)
				m["signatures"] = append(s, s[0])
			})
			c.refresh(false)
			c.trusts(1, 1, 0, 0)
		},
		"invalid_sig_in_valid_metadata": func(c *conform) {
			old := c.repo.Keys(tufrepo.Timestamp)
			c.repo.SetKeys(tufrepo.Timestamp, 1, append(old, tufrepo.NewKey(c.t))...)
			for _, sig := range []string{strings.Repeat("ab", 64), ""} {
				c.repo.Publish(tufrepo.Root, tufrepo.Timestamp)
				edit(c.t, c.repo, "metadata/timestamp.json", func(m map[string]any) {
					m["signatures"].([]any)[0].(map[string]any)["sig"] = sig
				})
				c.refresh(true)
			}
		},
		"deprecated_keyid_hash_algorithms": func(c *conform) {
			c.repo.SetKeys(tufrepo.Snapshot, 1, tufrepo.NewKey(c.t))
			for _, k := range c.repo.Root.Signed.Keys {
				k.UnrecognizedFields = map[string]any{"keyid_hash_algorithms": "md5"}
			}
			c.repo.Publish(all()...)
			c.refresh(true)
		},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(newConform(t)) })
	}
	for name, generate := range map[string]func() (crypto.Signer, error){
		"rsa/rsassa-pss-sha256":     func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) },
		"ecdsa/ecdsa-sha2-nistp256": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) },
		"ed25519/ed25519": func() (crypto.Signer, error) {
			_, k, err := ed25519.GenerateKey(rand.Reader)
			return k, err
		},
	} {
		t.Run("keytype_and_scheme "+name, func(t *testing.T) {
			t.Parallel()
			c := newConform(t)
			private, err := generate()
			must(t, err)
			c.repo.SetKeys(tufrepo.Root, 2, append(c.repo.Keys(tufrepo.Root), tufrepo.KeyOf(t, private))...)
			c.repo.Publish(tufrepo.Root)
			c.refresh(true)
			c.trusts(2, 1, 1, 1)
			c.repo.Publish(tufrepo.Root)
			edit(t, c.repo, "metadata/3.root.json", func(m map[string]any) {
				sig := m["signatures"].([]any)[1].(map[string]any)
				s := sig["sig"].(string)
				sig["sig"] = s[:len(s)-2] + map[bool]string{true: "00", false: "01"}[s[len(s)-2:] != "00"]
			})
			c.refresh(false)
			c.trusts(2, 1, 1, 1)
		})
	}
}

func TestConformanceExpiration(t *testing.T) {
	t.Parallel()
	past := born.Add(-5 * 24 * time.Hour)
	for name, run := range map[string]func(c *conform){
		"root_expired": func(c *conform) {
			c.refresh(true)
			c.repo.Publish(tufrepo.Root)
			c.refresh(true)
			c.repo.Root.Signed.Expires = past
			c.repo.Publish(all()...)
			c.refresh(false)
			c.trusts(3, 1, 1, 1)
		},
		"timestamp_expired": func(c *conform) {
			c.refresh(true)
			c.repo.Timestamp.Signed.Expires = past
			c.repo.Publish(tufrepo.Timestamp)
			c.refresh(false)
			c.trusts(1, 1, 1, 1)
		},
		"snapshot_expired": func(c *conform) {
			c.refresh(true)
			c.repo.Snapshot.Signed.Expires = past
			c.repo.Publish(tufrepo.Snapshot, tufrepo.Timestamp)
			c.refresh(false)
			c.trusts(1, 2, 1, 1)
		},
		"targets_expired": func(c *conform) {
			c.refresh(true)
			c.repo.Targets.Signed.Expires = past
			c.repo.Publish()
			c.refresh(false)
			c.trusts(1, 2, 2, 1)
		},
		"expired_local_root": func(c *conform) {
			c.repo.Root.Signed.Expires = born.Add(7 * 24 * time.Hour)
			c.repo.Publish(tufrepo.Root)
			c.refresh(true)
			c.repo.Root.Signed.Expires = born.Add(21 * 24 * time.Hour)
			c.repo.Publish(tufrepo.Root)
			c.clock.Advance(18 * 24 * time.Hour)
			c.refresh(true)
			c.trusts(3, 1, 1, 1)
		},
		"expired_local_timestamp": func(c *conform) {
			c.repo.Timestamp.Signed.Expires = born.Add(7 * 24 * time.Hour)
			c.repo.Publish(tufrepo.Timestamp)
			c.refresh(true)
			c.repo.Timestamp.Signed.Expires = born.Add(21 * 24 * time.Hour)
			c.repo.Publish()
			c.clock.Advance(18 * 24 * time.Hour)
			c.refresh(true)
			c.trusts(1, 3, 2, 2)
		},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(newConform(t)) })
	}
}
