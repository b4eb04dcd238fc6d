package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"interlock.sh/fault"
)

// apart moves each root key of a lab to a folder of its own, as to its holder, and gives the folders.
func (l *lab) apart() map[string]string {
	l.t.Helper()
	out := map[string]string{}
	for _, name := range []string{"root-1", "root-2", "root-3"} {
		out[name] = l.t.TempDir()
		if err := os.Rename(filepath.Join(l.keys, name+".key"), filepath.Join(out[name], name+".key")); err != nil {
			l.t.Fatal(err)
		}
	}
	return out
}

// propose writes a proposal on the release machine and gives its file.
func (l *lab) propose(replace ...Replacement) string {
	l.t.Helper()
	path := filepath.Join(l.t.TempDir(), "next-root.json")
	l.must(func(r *Repository) error {
		p, err := r.Propose(l.t.Context(), replace, l.ring())
		if err != nil {
			return err
		}
		return p.Write(path, true)
	})
	return path
}

// signFile signs a proposal where the key of a folder is, and nothing else.
func (l *lab) signFile(path, dir string) ([]string, error) {
	l.t.Helper()
	p, err := ReadProposal(path)
	if err != nil {
		return nil, err
	}
	names, err := p.Sign(l.t.Context(), l.ring(dir), l.clock.Now())
	if err != nil {
		return nil, err
	}
	return names, p.Write(path, false)
}

func (l *lab) mustSign(path string, dirs ...string) {
	l.t.Helper()
	for _, dir := range dirs {
		if names, err := l.signFile(path, dir); err != nil || len(names) != 1 {
			l.t.Fatalf("%v, %v", names, err)
		}
	}
}

// applyFiles applies copies of a proposal on the release machine.
func (l *lab) applyFiles(paths ...string) (Published, error) {
	l.t.Helper()
	p, err := ReadProposal(paths[0])
	if err != nil {
		return Published{}, err
	}
	for _, path := range paths[1:] {
		other, err := ReadProposal(path)
		if err != nil {
			return Published{}, err
		}
		if err := p.Merge(other); err != nil {
			return Published{}, err
		}
	}
	return Apply(l.t.Context(), l.dir, p, l.ring(), l.clock)
}

func (l *lab) copyOf(path string) string {
	l.t.Helper()
	text, err := os.ReadFile(path)
	to := filepath.Join(l.t.TempDir(), "copy.json")
	if err := errors.Join(err, os.WriteFile(to, text, 0o644)); err != nil {
		l.t.Fatal(err)
	}
	return to
}

// Keys are replaced, one of the root's too, while each root key stays where its holder has it: the file goes
// round, and machines follow from the first root to the last.
func TestARootThatIsSignedFarApart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.sign("1.0.0", "linux-amd64")
	l.publish()
	old := l.machine()
	old.sees(1)
	usb := l.apart()

	fourth := t.TempDir()
	made, pub, err := NewKey(t.Context(), "root-4", l.ring(fourth))
	if err != nil || !slices.Equal(l.keyFiles(fourth), []string{"root-4.key", "root-4.pub"}) {
		t.Fatal(err, l.keyFiles(fourth))
	}
	public, err := ReadPublicKey(pub)
	if err != nil || public.ID != made.ID {
		t.Fatalf("%+v, %v", public, err)
	}
	gone, err := readKey(filepath.Join(usb["root-2"], "root-2.key"))
	if err != nil {
		t.Fatal(err)
	}
	l.asked = nil
	path := l.propose(Replacement{Key: gone.ID[:8], By: &public}, Replacement{Key: "targets-1"})
	if !slices.Equal(l.asked, []string{"targets-2"}) {
		t.Error("the release machine asked for", l.asked)
	}
	l.mustSign(path, usb["root-1"])

	p, err := ReadProposal(path)
	if err != nil {
		t.Fatal(err)
	}
	v := p.Describe()
	i := slices.IndexFunc(v.Roles, func(r ProposedRole) bool { return r.Role == "root" })
	if root := v.Roles[i]; v.Version != 2 || root.Threshold != 2 || root.Before != 2 || len(root.Stay) != 2 ||
		!slices.Equal(root.New, []string{made.ID}) || !slices.Equal(root.Gone, []string{gone.ID}) {
		t.Errorf("it would be %+v", v)
	}
	if len(v.Signed) != 2 || len(v.Signed[0].By) != 1 || len(v.Signed[1].By) != 1 || len(v.Signed[1].Missing) != 2 {
		t.Errorf("signed: %+v", v.Signed)
	}
	// The new key counts for the new root alone, so the old one still lacks one.
	l.mustSign(path, fourth)
	_, err = l.applyFiles(path)
	refusedWith(t, err, fault.Invalid, "root 1 wants 2 of its 3 keys, and 1 signed")
	// A key that goes may take part in its own replacement.
	l.mustSign(path, usb["root-2"])
	if names, err := l.signFile(path, usb["root-2"]); err != nil || len(names) != 0 {
		t.Errorf("a second time: %v, %v", names, err)
	}
	out, err := l.applyFiles(path)
	if err != nil || out.Root != 2 || out.Targets == 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	old.sees(1)
	l.machine().sees(1)
	l.sign("1.1.0", "linux-amd64")
	l.publish()
	old.sees(2)

	// Two holders sign copies of one file at the same time; what lived on needs no key of releases.
	path = l.propose()
	other := l.copyOf(path)
	l.mustSign(path, usb["root-3"])
	l.mustSign(other, fourth)
	_, err = l.applyFiles(path)
	refusedWith(t, err, fault.Invalid, "root 2 wants 2 of its 3 keys, and 1 signed")
	l.asked = nil
	if out, err = l.applyFiles(path, other); err != nil || out != (Published{Root: 3}) || len(l.asked) > 0 {
		t.Fatalf("%+v, %v, asked for %v", out, err, l.asked)
	}
	old.sees(2)
	l.machine().sees(2)
}

// What somebody did to a file on its way is found before the next one signs it, and by the release machine.
func TestAProposalThatWasTamperedWith(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	usb := l.apart()
	path := l.propose()
	l.mustSign(path, usb["root-1"])
	other := l.propose(Replacement{Key: "timestamp-1"})
	l.mustSign(other, usb["root-2"])
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) (f struct {
		Schema int            `json:"schema"`
		Old    map[string]any `json:"old"`
		Next   map[string]any `json:"next"`
	}) {
		text, err := os.ReadFile(path)
		if err := errors.Join(err, json.Unmarshal(text, &f)); err != nil {
			t.Fatal(err)
		}
		return f
	}
	signed := func(f any, key string) map[string]any { return f.(map[string]any)[key].(map[string]any) }
	for what, c := range map[string]struct {
		change func() any
		words  string
	}{
		"a signature over another file": {func() any {
			f := read(path)
			f.Next["signatures"] = append(f.Next["signatures"].([]any), read(other).Next["signatures"].([]any)...)
			return f
		}, "is not over this root: it was made over another file, or this one was changed since"},
		"another content under a signature": {func() any {
			f := read(path)
			f.Next["signed"] = read(other).Next["signed"]
			return f
		}, "is not over this root"},
		"a longer life": {func() any {
			f := read(path)
			signed(f.Next, "signed")["expires"] = "2099-01-01T00:00:00Z"
			return f
		}, "is not over this root"},
		"a key of nobody": {func() any {
			f := read(path)
			f.Next["signatures"].([]any)[0].(map[string]any)["keyid"] = strings.Repeat("ab", 32)
			return f
		}, "the signature of key abababababab is not over this root"},
		"a version that was left out": {func() any {
			f := read(path)
			signed(f.Next, "signed")["version"] = 7
			return f
		}, "root 7 cannot follow root 1"},
		"a threshold that nobody meets": {func() any {
			f := read(path)
			f.Next["signatures"] = []any{}
			signed(signed(f.Next, "signed"), "roles")["root"].(map[string]any)["threshold"] = 4
			return f
		}, "nobody could ever sign as root under it"},
		"a key under the id of another": {func() any {
			f := read(path)
			f.Next["signatures"] = []any{}
			keys, roles := signed(signed(f.Next, "signed"), "keys"), signed(signed(f.Next, "signed"), "roles")
			one, two := roles["root"].(map[string]any)["keyids"].([]any)[0].(string), roles["targets"].(map[string]any)["keyids"].([]any)[0].(string)
			keys[one] = keys[two]
			return f
		}, "stands another key"},
		"a key that is nowhere": {func() any {
			f := read(path)
			f.Next["signatures"] = []any{}
			signed(signed(f.Next, "signed"), "roles")["targets"].(map[string]any)["keyids"] = []string{strings.Repeat("ab", 32)}
			return f
		}, "nobody could ever sign as targets under it"},
		"an old root of another making": {func() any {
			f := read(path)
			signed(f.Old, "signed")["expires"] = "2099-01-01T00:00:00Z"
			return f
		}, "the root that it follows"},
		"another schema": {func() any { f := read(path); f.Schema = 2; return f }, "it has schema 2; this program knows 1"},
	} {
		t.Run(what, func(t *testing.T) {
			bad := filepath.Join(t.TempDir(), "bad.json")
			out, err := json.Marshal(c.change())
			if err := errors.Join(err, os.WriteFile(bad, out, 0o644)); err != nil {
				t.Fatal(err)
			}
			_, err = l.signFile(bad, usb["root-3"])
			refusedWith(t, err, fault.Invalid, c.words)
			_, err = l.applyFiles(bad)
			refusedWith(t, err, fault.Invalid, c.words)
			if after, err := os.ReadFile(bad); err != nil || string(after) != string(out) {
				t.Error("the file was written to")
			}
		})
	}
	for what, bytes := range map[string]string{"cut": string(text[:len(text)/2]), "empty": "", "a key": "{}"} {
		bad := filepath.Join(t.TempDir(), "bad.json")
		if err := os.WriteFile(bad, []byte(bytes), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadProposal(bad); fault.CodeOf(err) != fault.Invalid {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = l.applyFiles(path, other)
	refusedWith(t, err, fault.Conflict, "the files hold different roots")
	_, err = ReadProposal(filepath.Join(t.TempDir(), "none"))
	refusedWith(t, err, fault.NotFound, "there is no file")
}

// A file that was overtaken, left lying, or made for another repository changes nothing.
func TestAProposalThatIsStale(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	usb := l.apart()
	first, second := l.propose(), l.propose()
	for _, path := range []string{first, second} {
		l.mustSign(path, usb["root-1"], usb["root-2"])
	}
	another := newLab(t)
	p, err := ReadProposal(first)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Apply(t.Context(), another.dir, p, another.ring(), l.clock)
	refusedWith(t, err, fault.Conflict, "follows root 1 of another repository")
	if _, err := l.applyFiles(first); err != nil {
		t.Fatal(err)
	}
	_, err = l.applyFiles(second)
	refusedWith(t, err, fault.Conflict, "the file is stale: it follows root 1, and the newest here is root 2")
	_, err = l.applyFiles(first)
	refusedWith(t, err, fault.Conflict, "the file is stale")

	third := l.propose()
	l.mustSign(third, usb["root-1"])
	l.clock.Advance(days(DefaultSettings().RootDays) + time.Hour)
	_, err = l.signFile(third, usb["root-2"])
	refusedWith(t, err, fault.Invalid, "root 3, which waits for signatures, ended on")
	_, err = l.applyFiles(third)
	refusedWith(t, err, fault.Invalid, "ended on")
	l.must(func(r *Repository) error {
		if n := r.root().Signed.Version; n != 2 {
			return fmt.Errorf("the root is %d", n)
		}
		return nil
	})
}

// What would bring root keys together, or give one two places, is refused.
func TestProposalsAreRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	root, err := readKey(filepath.Join(l.keys, "root-1.key"))
	if err != nil {
		t.Fatal(err)
	}
	propose := func(r Replacement) error {
		return l.with(func(repo *Repository) error {
			_, err := repo.Propose(t.Context(), []Replacement{r}, l.ring())
			return err
		})
	}
	l.asked = nil
	refusedWith(t, propose(Replacement{Key: "root-1"}), fault.Invalid, "would be made here, on the release machine")
	refusedWith(t, propose(Replacement{Key: root.ID[:8]}), fault.Invalid, "would be made here, on the release machine")
	if len(l.asked) > 0 {
		t.Error("a passphrase was asked for in vain:", l.asked)
	}
	dir := t.TempDir()
	_, targets, err := NewKey(t.Context(), "targets-7", l.ring(dir))
	if err != nil {
		t.Fatal(err)
	}
	_, fresh, err := NewKey(t.Context(), "root-4", l.ring(dir))
	if err != nil {
		t.Fatal(err)
	}
	key := func(path string) *PublicKey {
		k, err := ReadPublicKey(path)
		if err != nil {
			t.Fatal(err)
		}
		return &k
	}
	refusedWith(t, propose(Replacement{Key: "root-1", By: key(targets)}), fault.Invalid, "key root-1 is one of root, and targets-7 is one of targets")
	twice := l.with(func(r *Repository) error {
		_, err := r.Propose(t.Context(), []Replacement{{Key: "root-1", By: key(fresh)}, {Key: "root-2", By: key(fresh)}}, l.ring())
		return err
	})
	refusedWith(t, twice, fault.Conflict, "key root-4 is in the root already")
	l.sign("1.0.0", "linux-amd64")
	refusedWith(t, propose(Replacement{Key: "targets-1"}), fault.Conflict, "something is signed that is not published")
	l.publish()

	path := l.propose()
	_, err = l.signFile(path, dir)
	refusedWith(t, err, fault.Invalid, "no key that counts for root 2 is in")
	p, err := ReadProposal(path)
	if err != nil {
		t.Fatal(err)
	}
	refusedWith(t, p.Write(path, true), fault.Conflict, "is there already")

	for _, name := range []string{"root", "root4", "user-1", "../root-4", ""} {
		_, _, err := NewKey(t.Context(), name, l.ring(t.TempDir()))
		refusedWith(t, err, fault.Invalid, "is no name of a key")
	}
	_, _, err = NewKey(t.Context(), "root-4", l.ring(dir))
	refusedWith(t, err, fault.Conflict, "a key is never replaced")
	for what, text := range map[string]string{"a key file": mustRead(t, filepath.Join(dir, "root-4.key")), "nothing": "", "large": strings.Repeat(" ", maxKeyFile+1)} {
		bad := filepath.Join(t.TempDir(), "bad.pub")
		if err := os.WriteFile(bad, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadPublicKey(bad); err == nil {
			t.Errorf("%s was read as a public key", what)
		}
	}
	mixed := filepath.Join(t.TempDir(), "mixed.pub")
	id := key(targets).ID
	if err := os.WriteFile(mixed, []byte(strings.Replace(mustRead(t, fresh), key(fresh).ID, id, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = ReadPublicKey(mixed)
	refusedWith(t, err, fault.Invalid, "holds another key than it says")
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A repository begins with root keys that were made apart and never came together.
func TestAFirstRootThatIsSignedFarApart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.dir, l.keys = filepath.Join(t.TempDir(), "repository"), filepath.Join(t.TempDir(), "keys")
	var usb []string
	var roots []PublicKey
	for _, name := range []string{"root-1", "root-2", "root-3"} {
		dir := t.TempDir()
		k, _, err := NewKey(t.Context(), name, l.ring(dir))
		if err != nil {
			t.Fatal(err)
		}
		usb, roots = append(usb, dir), append(roots, k)
	}
	begin := func(threshold int, roots ...PublicKey) (string, error) {
		p, err := ProposeFirst(t.Context(), l.dir, roots, threshold, DefaultSettings(), l.ring(), l.clock)
		if err != nil {
			return "", err
		}
		path := filepath.Join(t.TempDir(), "first-root.json")
		return path, p.Write(path, true)
	}
	_, err := begin(2, roots[0])
	refusedWith(t, err, fault.Invalid, "threshold of the root is 2")
	_, err = begin(2, roots[0], roots[1], roots[1])
	refusedWith(t, err, fault.Invalid, "key root-2 was named twice")
	if _, err := os.Stat(l.keys); err == nil {
		t.Error("keys were made in vain:", l.keyFiles(l.keys))
	}
	path, err := begin(2, roots...)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.with(func(*Repository) error { return nil }); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("before it is signed: %v", err)
	}
	l.mustSign(path, usb[2])
	_, err = l.applyFiles(path)
	refusedWith(t, err, fault.Invalid, "root 1 wants 2 of its 3 keys, and 1 signed")
	l.mustSign(path, usb[0])
	p, err := ReadProposal(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Apply(t.Context(), l.dir, p, l.ring(t.TempDir()), l.clock)
	refusedWith(t, err, fault.Invalid, "are not within reach")
	if out, err := l.applyFiles(path); err != nil || out != (Published{Root: 1, Targets: 1, Snapshot: 1, Timestamp: 1}) {
		t.Fatalf("%+v, %v", out, err)
	}
	_, err = l.applyFiles(path)
	refusedWith(t, err, fault.Conflict, "is a repository of releases already")
	_, err = begin(2, roots...)
	refusedWith(t, err, fault.Conflict, "is a repository of releases already")
	l.sign("1.0.0", "linux-amd64")
	l.publish()
	l.machine().sees(1)

	// The machine died after the root: what is missing is published by the next command.
	for _, name := range []string{"timestamp.json", "1.snapshot.json", "2.snapshot.json", "1.targets.json", "2.targets.json"} {
		if err := os.Remove(l.metadataFile(name)); err != nil {
			t.Fatal(err)
		}
	}
	l.publish()
	l.machine().sees(0)
}

func (l *lab) metadataFile(name string) string { return filepath.Join(l.dir, metadataDir, name) }
