package updater

import (
	"os"
	"path/filepath"
	"testing"

	"interlock.sh/fleet/build"
	"interlock.sh/internal/testkit/tufrepo"
)

// The first root is kept only when each root from it on vouches for the next, up to the one that is trusted
// from the start: what a mirror merely sends would be compared with, and shown, as if it were vouched for.
func TestTheFirstRootIsVouchedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, files map[string][]byte)
		kept  bool
	}{
		"as it is": {func(*testing.T, map[string][]byte) {}, true},
		"another repository's": {func(t *testing.T, files map[string][]byte) {
			files["metadata/1.root.json"] = tufrepo.New(t, born).File("metadata/1.root.json")
		}, false},
		"no root at all": {func(_ *testing.T, files map[string][]byte) { files["metadata/1.root.json"] = []byte("<html>") }, false},
		"it is missing":  {func(_ *testing.T, files map[string][]byte) { delete(files, "metadata/1.root.json") }, false},
		"one between":    {func(_ *testing.T, files map[string][]byte) { delete(files, "metadata/2.root.json") }, false},
		"a later one": {func(_ *testing.T, files map[string][]byte) {
			files["metadata/1.root.json"] = files["metadata/2.root.json"]
		}, false},
		"the trusted one": {func(_ *testing.T, files map[string][]byte) {
			files["metadata/1.root.json"] = files["metadata/3.root.json"]
		}, false},
		"another last one": {func(t *testing.T, files map[string][]byte) { delete(files, "metadata/3.root.json") }, false},
		"a whole other chain": {func(t *testing.T, files map[string][]byte) {
			other := chain(t)
			for _, n := range []string{"1", "2", "3"} {
				files["metadata/"+n+".root.json"] = other.File("metadata/" + n + ".root.json")
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.repo = chain(t)
			r.Root = r.repo.File("metadata/3.root.json")
			r.repo.Add(build.Target{Program: build.Interlock, Version: "1.1.0", OS: "linux", Arch: "amd64", Channels: map[string]int{build.Stable: 100}}, []byte("1.1.0 good"))
			r.repo.Publish()
			first := r.repo.File("metadata/1.root.json")
			files := r.repo.Files()
			c.spoil(t, files)
			r.Origins = []Origin{origin(t, tufrepo.Serve(t, tufrepo.Copy(files)))}
			r.want(r.run(), Current, "1.1.0") // it stops no update
			b, err := os.ReadFile(filepath.Join(r.app, "trust", firstRoot))
			if kept := err == nil; kept != c.kept || kept && string(b) != string(first) {
				t.Errorf("kept is %v (%v), want %v", kept, err, c.kept)
			}
			if print := Fingerprint(r.app); (print != "") != c.kept {
				t.Errorf("the fingerprint is %q", print)
			}
		})
	}
}

// chain is a repository whose root keys changed twice.
func chain(t *testing.T) *tufrepo.Repo {
	t.Helper()
	repo := tufrepo.New(t, born)
	for range 2 {
		old := repo.Keys(tufrepo.Root)
		fresh := tufrepo.NewKey(t)
		repo.SetKeys(tufrepo.Root, 1, fresh)
		repo.SignWith(tufrepo.Root, append(old, fresh)...)
		repo.Publish(tufrepo.Root)
		repo.SignWith(tufrepo.Root, fresh)
	}
	return repo
}
