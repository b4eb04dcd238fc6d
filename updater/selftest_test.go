package updater

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree is what stands in a folder.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if to, err := os.Readlink(path); err == nil {
			out[path] = to
			return nil
		}
		b, err := os.ReadFile(path)
		out[path] = string(b)
		return err
	}))
	return out
}

// A self-test runs beside the updater that asks for it, finds what the next pass would, and changes nothing.
func TestASelfTestChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.release("1.1.0", "good")
	asked := 0
	r.Prove = func(ctx context.Context, _ string) error {
		asked++
		before := tree(t, r.app)
		r.release("1.2.0", "good")
		n, err := r.updater().SelfTest(ctx)
		if err != nil || n.Current != "1.1.0" || n.Newest != "1.2.0" {
			t.Errorf("%+v, %v", n, err)
		}
		if after := tree(t, r.app); !maps.Equal(before, after) {
			t.Errorf("before %d files, after %d", len(before), len(after))
		}
		return err
	}
	n := r.run()
	r.want(n, Current, "1.1.0")
	if asked != 1 {
		t.Errorf("it was asked for %d times", asked)
	}
}

// Whatever a pass of the updater stumbles over fails the self-test.
func TestASelfTestFailsWhereAPassWould(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hurt func(*rig)
		word string
	}{
		"no state":           {func(r *rig) { must(r.t, os.Remove(folder(r.app).stateFile())) }, "state"},
		"a damaged state":    {func(r *rig) { must(r.t, os.WriteFile(folder(r.app).stateFile(), []byte("{"), 0o600)) }, "schema"},
		"a state of another": {func(r *rig) { must(r.t, os.WriteFile(folder(r.app).stateFile(), []byte(`{"schema":9}`), 0o600)) }, "schema 9"},
		"no trust":           {func(r *rig) { must(r.t, os.RemoveAll(folder(r.app).trust())) }, "state"},
		"no mirror answers":  {func(r *rig) { r.server.Close() }, "refused"},
		"no origin":          {func(r *rig) { r.Origins = nil }, "not enrolled"},
		"another repository": {func(r *rig) {
			other := newRig(r.t)
			other.release("1.1.0", "good")
			r.Origins = other.Origins
		}, "not signed"},
		"services that cannot be listed": {func(r *rig) { r.Services = unlisted{} }, "list the services"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.release("1.1.0", "good")
			r.want(r.run(), Current, "1.1.0")
			c.hurt(r)
			before := tree(t, r.app)
			if n, err := r.updater().SelfTest(t.Context()); contains(err, c.word) != nil {
				t.Errorf("%+v, %v; want %q", n, err, c.word)
			}
			if !maps.Equal(before, tree(t, r.app)) {
				t.Error("it changed something")
			}
			for _, name := range names(t, r.app) {
				if strings.HasPrefix(name, ".") {
					t.Errorf("%s was left", name)
				}
			}
		})
	}
}

type unlisted struct{}

func (unlisted) Subjects(context.Context) ([]Subject, error) { return nil, errors.New("no home") }
