package releases

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
	"interlock.sh/internal/atomicfile"
	"interlock.sh/internal/testkit/tufrepo"
)

func TestASetIsShownWithItsTimestamp(t *testing.T) {
	w := newWorld(t)
	w.shows("")
	w.publish("1.0.0")
	w.shows("1.0.0")
	before := w.served("timestamp.json")

	w.add(target(build.Interlock, "1.1.0", "linux-amd64"))
	w.repo.Publish()
	for _, name := range []string{"3.targets.json", "3.snapshot.json"} {
		if err := w.Put(name, bytes.NewReader(w.repo.File("metadata/"+name))); err != nil {
			t.Fatal(err)
		}
		if w.served(name) != "" {
			t.Error(name, "is shown before its timestamp")
		}
	}
	w.shows("1.0.0")
	if w.served("timestamp.json") != before {
		t.Error("the timestamp changed")
	}
	w.mustSend()
	w.shows("1.1.0")
	for _, name := range []string{"1.root.json", "2.targets.json", "3.targets.json", "3.snapshot.json", "timestamp.json"} {
		if got := w.served(name); got != string(w.repo.File("metadata/"+name)) {
			t.Errorf("%s is served with other bytes", name)
		}
	}
	w.mustSend() // again, as after a connection that broke
	w.open(w.o.Dir)
	w.shows("1.1.0")
}

func TestTargetsAreServedByTheirSignedPathAlone(t *testing.T) {
	w := newWorld(t)
	secret := w.store([]byte("somebody's file"))
	w.publish("1.0.0")
	text := []byte("the bytes of interlock/1.0.0/interlock-linux-amd64")
	digest := w.store(text)
	f, got, err := w.Target("interlock/1.0.0/" + digest + ".interlock-linux-amd64")
	if err != nil || got != digest {
		t.Fatal(got, err)
	}
	if read, err := io.ReadAll(f); err != nil || !bytes.Equal(read, text) {
		t.Fatal(string(read), err)
	}
	for _, path := range []string{
		"", "/", "..", "interlock/1.0.0/interlock-linux-amd64", "interlock/1.0.0/" + secret + ".interlock-linux-amd64",
		"interlock/1.0.0/../1.0.0/" + digest + ".interlock-linux-amd64", digest, strings.Repeat("a", 5000),
	} {
		_, _, err := w.Target(path)
		refusedWith(t, err, fault.NotFound, "no released program")
	}
	for _, name := range []string{"../timestamp.json", "root.json", "0.root.json", "01.root.json", "1.timestamp.json", "1.other.json", "timestamp.json.tmp", "", "99999999999.root.json"} {
		_, err := w.Metadata(name)
		refusedWith(t, err, fault.NotFound, "no metadata file")
		refusedWith(t, w.Put(name, strings.NewReader("{}")), fault.NotFound, "no metadata file")
	}
}

// endless is a body that does not stop.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.read += int64(len(p))
	return len(p), nil
}

func TestEndlessBodiesAreCutAtTheLimit(t *testing.T) {
	w := newWorld(t)
	for name, limit := range map[string]int64{"1.root.json": 512_000, "timestamp.json": 16_384, "1.snapshot.json": 2_000_000, "1.targets.json": 5_000_000} {
		body := &endless{}
		refusedWith(t, w.Put(name, body), fault.TooLarge, fmt.Sprintf("larger than the %d bytes", limit))
		if body.read > 2*limit+1024 {
			t.Errorf("%s: %d bytes were read", name, body.read)
		}
	}
	for n := 1; ; n++ {
		err := w.Put(fmt.Sprintf("%d.targets.json", n), strings.NewReader(fmt.Sprintf(`{"signed":{"_type":"targets","version":%d}}`, n)))
		if err != nil {
			refusedWith(t, err, fault.QueueFull, "300 metadata files wait")
			break
		}
		if n > maxIncoming {
			t.Fatal("files wait without end")
		}
	}
}

// A full waiting room does not keep out the timestamp that empties it.
func TestAFullWaitingRoomIsEmptiedByItsTimestamp(t *testing.T) {
	w := newWorld(t)
	w.publish("1.0.0")
	w.add(target(build.Interlock, "1.1.0", "linux-amd64"))
	w.repo.Publish()
	for name, text := range w.repo.Files() {
		if file, ok := strings.CutPrefix(name, "metadata/"); ok && file != "timestamp.json" {
			if err := w.Put(file, bytes.NewReader(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for n := 1000; ; n++ {
		if err := w.Put(fmt.Sprintf("%d.targets.json", n), strings.NewReader(fmt.Sprintf(`{"signed":{"_type":"targets","version":%d}}`, n))); err != nil {
			refusedWith(t, err, fault.QueueFull, "")
			break
		}
	}
	if err := w.Put("timestamp.json", bytes.NewReader(w.repo.File("metadata/timestamp.json"))); err != nil {
		t.Fatal(err)
	}
	w.shows("1.1.0")
}

// Whatever comes in, what is live stays as it is: one case for every way in which a set can be wrong.
func TestASetThatDoesNotHoldChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(w *world)
		code  fault.Code
		words string
	}{
		"an older timestamp": {func(w *world) {
			w.repo.Timestamp.Signed.Version = 1
			w.repo.PublishAsIs(tufrepo.Timestamp)
		}, fault.ReleaseConflict, "must be >= 2"},
		"the same number, other bytes": {func(w *world) {
			w.repo.Timestamp.Signed.Expires = w.repo.Timestamp.Signed.Expires.Add(time.Hour)
			w.repo.PublishAsIs(tufrepo.Timestamp)
		}, fault.ReleaseConflict, "that version is live with other bytes"},
		"an older snapshot": {func(w *world) {
			w.repo.Timestamp.Signed.Meta["snapshot.json"].Version = 1
			w.repo.Timestamp.Signed.Version = 3
			w.repo.PublishAsIs(tufrepo.Timestamp)
		}, fault.ReleaseConflict, "snapshot version 1 must be >= 2"},
		"older targets": {func(w *world) {
			w.repo.Snapshot.Signed.Version, w.repo.Targets.Signed.Version = 3, 1
			w.repo.Snapshot.Signed.Meta["targets.json"].Version = 1
			w.repo.PublishAsIs(tufrepo.Snapshot)
			w.repo.Publish(tufrepo.Timestamp)
		}, fault.ReleaseConflict, "3.snapshot.json is refused"},
		"another snapshot than was signed": {func(w *world) {
			w.repo.Publish()
			w.repo.Snapshot.Signed.Expires = w.repo.Snapshot.Signed.Expires.Add(time.Hour)
			w.repo.PublishAsIs(tufrepo.Snapshot)
		}, fault.HashMismatch, "3.snapshot.json is refused"},
		"other targets than were signed": {func(w *world) {
			w.repo.Publish()
			w.repo.Targets.Signed.Expires = w.repo.Targets.Signed.Expires.Add(time.Hour)
			w.repo.PublishAsIs(tufrepo.Targets)
		}, fault.HashMismatch, "3.targets.json is refused"},
		"a stranger's timestamp": {func(w *world) {
			w.repo.SignWith(tufrepo.Timestamp, tufrepo.NewKey(w.t))
			w.repo.Publish(tufrepo.Timestamp)
		}, fault.Invalid, "not enough signatures, got 0, want 1"},
		"a stranger's snapshot": {func(w *world) {
			w.repo.SignWith(tufrepo.Snapshot, tufrepo.NewKey(w.t))
			w.repo.Publish()
		}, fault.Invalid, "not enough signatures"},
		"a stranger's targets": {func(w *world) {
			w.repo.SignWith(tufrepo.Targets, tufrepo.NewKey(w.t))
			w.repo.Publish()
		}, fault.Invalid, "not enough signatures"},
		"unsigned targets": {func(w *world) {
			w.repo.SignWith(tufrepo.Targets)
			w.repo.Publish()
		}, fault.Invalid, "not enough signatures"},
		"a stranger's next root": {func(w *world) {
			w.repo.SetKeys(tufrepo.Root, 1, tufrepo.NewKey(w.t))
			w.repo.Publish(tufrepo.Root)
			w.repo.Publish()
		}, fault.Invalid, "2.root.json is refused"},
		"a next root below its threshold": {func(w *world) {
			old := w.repo.Keys(tufrepo.Root)
			w.repo.SetKeys(tufrepo.Root, 2, old[0], tufrepo.NewKey(w.t))
			w.repo.SignWith(tufrepo.Root, old...)
			w.repo.Publish(tufrepo.Root)
			w.repo.Publish()
		}, fault.Invalid, "not enough signatures, got 1, want 2"},
		"a root that skips one": {func(w *world) {
			w.repo.Root.Signed.Version = 2
			w.repo.Publish(tufrepo.Root)
			w.repo.Put("metadata/2.root.json", w.repo.File("metadata/3.root.json"))
			w.repo.Publish()
		}, fault.Invalid, "its name says another"},
		"another first root": {func(w *world) {
			w.repo.Put("metadata/1.root.json", tufrepo.New(w.t, noon).File("metadata/1.root.json"))
		}, fault.ReleaseConflict, "mirrors another repository"},
		"an expired timestamp": {func(w *world) {
			w.repo.Timestamp.Signed.Expires = noon.Add(-time.Second)
			w.repo.Publish(tufrepo.Timestamp)
		}, fault.Invalid, "timestamp.json is expired"},
		"an expired snapshot": {func(w *world) {
			w.repo.Snapshot.Signed.Expires = noon.Add(-time.Second)
			w.repo.Publish()
		}, fault.Invalid, "snapshot.json is expired"},
		"expired targets": {func(w *world) {
			w.repo.Targets.Signed.Expires = noon.Add(-time.Second)
			w.repo.Publish()
		}, fault.Invalid, "targets is expired"},
		"an expired root": {func(w *world) {
			w.repo.Root.Signed.Expires = noon.Add(-time.Second)
			w.repo.Publish(tufrepo.Root)
			w.repo.Publish()
		}, fault.Invalid, "final root.json is expired"},
		"a program that is not here": {func(w *world) {
			w.repo.Add(target(build.Interlock, "1.1.0", "linux-arm64"), []byte("kept back"))
			w.repo.Publish()
		}, fault.Conflict, "1 of the programs are not here with the length that was signed: interlock/1.1.0/interlock-linux-arm64"},
		"a program of another length": {func(w *world) {
			text := []byte("whole")
			w.repo.Add(target(build.Interlock, "1.1.0", "linux-arm64"), text)
			w.blobs[w.store(text)] = text[:2]
			w.repo.Publish()
		}, fault.Conflict, "are not here with the length"},
		"a target without a SHA-256": {func(w *world) {
			w.repo.AddAt("interlock/9.9.9/interlock-linux-amd64", nil, nil)
			w.repo.Targets.Signed.Targets["interlock/9.9.9/interlock-linux-amd64"].Hashes = metadata.Hashes{"sha512": make([]byte, 64)}
			w.repo.Publish()
		}, fault.Invalid, "has no SHA-256"},
		"a set that lacks its targets": {func(w *world) {
			w.repo.Publish()
			w.repo.Remove("metadata/3.targets.json")
		}, fault.Conflict, "3.targets.json is not here"},
		"a set that lacks its snapshot": {func(w *world) {
			w.repo.Publish()
			w.repo.Remove("metadata/3.snapshot.json")
		}, fault.Conflict, "3.snapshot.json is not here"},
		"no JSON": {func(w *world) {
			w.repo.Put("metadata/timestamp.json", []byte("{"))
		}, fault.Malformed, "no metadata"},
		"another role's bytes": {func(w *world) {
			w.repo.Put("metadata/timestamp.json", w.repo.File("metadata/1.root.json"))
		}, fault.Invalid, "its name says another"},
		"live bytes that changed": {func(w *world) {
			w.repo.Put("metadata/2.targets.json", append(w.repo.File("metadata/2.targets.json"), ' '))
		}, fault.ReleaseConflict, "what machines may have read never changes"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.publish("1.0.0")
			live := map[string]string{}
			for _, name := range []string{"1.root.json", "2.root.json", "2.targets.json", "3.targets.json", "2.snapshot.json", "3.snapshot.json", "timestamp.json"} {
				live[name] = w.served(name)
			}
			c.spoil(w)
			refusedWith(t, w.send(), c.code, c.words)
			for _, reopened := range []bool{false, true} {
				if reopened {
					w.open(w.o.Dir)
				}
				w.shows("1.0.0")
				for name, text := range live {
					if w.served(name) != text {
						t.Errorf("%s changed (reopened: %v)", name, reopened)
					}
				}
			}
		})
	}
}

// What a newer release tool knows more of is passed on to the machines, and the rest goes on as it is.
func TestATargetThatThisVersionDoesNotKnowIsServedAndShownNowhere(t *testing.T) {
	const at = "interlock/9.9.9/interlock-linux-amd64"
	for name, c := range map[string]struct{ at, custom string }{
		"a new platform":        {"interlock/9.9.9/interlock-plan9-amd64", `{"program":"interlock","version":"9.9.9","os":"plan9","arch":"amd64","channels":{"stable":100}}`},
		"a new program":         {"other/9.9.9/other-linux-amd64", `{"program":"other","version":"9.9.9","os":"linux","arch":"amd64","channels":{"stable":100}}`},
		"a new sort of version": {"interlock/next/interlock-linux-amd64", `{"program":"interlock","version":"next","os":"linux","arch":"amd64"}`},
		"a path for a version":  {"interlock/../etc/x", `{"program":"interlock","version":"../etc","os":"linux","arch":"amd64"}`},
		"another's path":        {at, `{"program":"interlock","version":"1.0.0","os":"linux","arch":"amd64"}`},
		"another form":          {at, `["interlock"]`},
		"no description":        {at, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.publish("1.0.0")
			text := []byte("bytes of tomorrow")
			digest := w.store(text)
			var custom []byte
			if c.custom != "" {
				custom = []byte(c.custom)
			}
			w.repo.AddAt(c.at, custom, text)
			w.publish("1.1.0")
			for _, reopened := range []bool{false, true} {
				if reopened {
					w.open(w.o.Dir)
				}
				w.shows("1.1.0")
				f, got, err := w.Target(path.Dir(c.at) + "/" + digest + "." + path.Base(c.at))
				if err != nil || got != digest {
					t.Fatalf("it is served as %q, %v (reopened: %v)", got, err, reopened)
				}
				if all, err := io.ReadAll(f); err != nil || !bytes.Equal(all, text) {
					t.Errorf("it is served as %q, %v", all, err)
				}
			}
		})
	}
}

// A root that was sent by mistake blocks the set that it came with, and no later one.
func TestARefusedSetDoesNotSpoilTheNext(t *testing.T) {
	w := newWorld(t)
	w.publish("1.0.0")
	other := tufrepo.New(t, noon)
	other.Publish(tufrepo.Root)
	if err := w.Put("2.root.json", bytes.NewReader(other.File("metadata/2.root.json"))); err != nil {
		t.Fatal(err)
	}
	w.add(target(build.Interlock, "1.1.0", "linux-amd64"))
	w.repo.Publish()
	refusedWith(t, w.send(), fault.Invalid, "2.root.json is refused")
	w.mustSend()
	w.shows("1.1.0")
}

func TestNothingBeforeTheRoots(t *testing.T) {
	w := newWorld(t)
	refusedWith(t, w.Put("timestamp.json", bytes.NewReader(w.repo.File("metadata/timestamp.json"))), fault.Conflict, "there is no 1.root.json yet")
	w.repo.Root.Signed.ConsistentSnapshot = false
	w.repo.PublishAsIs(tufrepo.Root)
	refusedWith(t, w.send(), fault.Invalid, "no consistent snapshots")
}

// Replaced keys: the mirror follows the roots, and what old keys had signed says nothing any more.
func TestReplacedKeys(t *testing.T) {
	w := newWorld(t)
	w.publish("1.0.0")
	for _, role := range []string{tufrepo.Timestamp, tufrepo.Snapshot, tufrepo.Targets} {
		w.repo.SetKeys(role, 1, tufrepo.NewKey(t))
	}
	w.repo.Publish(tufrepo.Root)
	w.publish("1.1.0")
	w.shows("1.1.0")
	if w.served("2.root.json") == "" {
		t.Error("the new root is not served")
	}
	w.open(w.o.Dir)
	w.shows("1.1.0")
}

// A control plane that dies at any write shows the set before or the set after, and ends what it began.
func TestAControlPlaneThatDies(t *testing.T) {
	dead := errors.New("the power is gone")
	for writes := 0; ; writes++ {
		w := newWorld(t)
		w.publish("1.0.0")
		w.repo.SetKeys(tufrepo.Timestamp, 1, tufrepo.NewKey(t))
		w.repo.Publish(tufrepo.Root)
		w.add(target(build.Interlock, "1.1.0", "linux-amd64"))
		w.repo.Publish()
		left := writes
		w.write = func(path string, text []byte) error {
			if left--; left < 0 {
				return errors.Join(dead, os.WriteFile(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp-1"), text[:len(text)/2], 0o600))
			}
			return atomicfile.Write(path, text, 0o600)
		}
		err := w.send()
		if err != nil && !errors.Is(err, dead) {
			t.Fatal(err)
		}
		w.open(w.o.Dir)
		m, ok := w.Manifest()
		if !ok {
			t.Fatalf("after %d writes nothing is offered", writes)
		}
		w.shows(m.Version)
		if left >= 0 && m.Version != "1.1.0" {
			t.Fatal("a set that was sent whole is not shown")
		}
		w.mustSend()
		w.shows("1.1.0")
		if err == nil {
			t.Logf("a set is %d writes", writes)
			return
		}
	}
}

// Time that ran out stops machines, not the installation of new ones; a folder that lost bytes offers
// nothing until it is published again.
func TestWhatIsLiveWhenTheControlPlaneStarts(t *testing.T) {
	w := newWorld(t)
	w.publish("1.0.0")
	w.clock.Advance(tufrepo.Lives * 20)
	w.open(w.o.Dir)
	w.shows("1.0.0")
	for _, name := range []string{"2.targets.json", "2.snapshot.json", "timestamp.json"} {
		path := filepath.Join(w.o.Dir, "metadata", name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, whole[:len(whole)/2], 0o600); err != nil {
			t.Fatal(err)
		}
		w.open(w.o.Dir)
		w.shows("")
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestALostFolderIsPublishedAgain(t *testing.T) {
	for _, name := range []string{"2.targets.json", "2.snapshot.json", "timestamp.json"} {
		w := newWorld(t)
		w.publish("1.0.0")
		if err := os.WriteFile(filepath.Join(w.o.Dir, "metadata", name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.open(w.o.Dir)
		w.shows("")
		w.mustSend()
		w.shows("1.0.0")
	}
}

func TestWhatANewMachineIsOffered(t *testing.T) {
	w := newWorld(t)
	yanked := func(t *build.Target) { t.Yanked = "loses work" }
	half := func(t *build.Target) { t.Channels = map[string]int{build.Stable: 50, build.Canary: 100} }
	w.add(target(build.Interlock, "1.0.0", "linux-amd64"))
	w.add(target(build.Interlock, "1.0.0", "darwin-arm64"))
	w.add(target(build.Interlock, "0.9.0", "linux-arm64"))
	w.add(target(build.Interlock, "1.1.0", "linux-amd64", half))
	w.add(target(build.Interlock, "1.2.0", "linux-amd64", yanked))
	w.add(target(build.TUI, "1.0.0", "linux-amd64"))
	w.add(target(build.Nightshift, "0.3.0", "linux-amd64"))
	w.add(target(build.Nightshift, "0.3.0", "darwin-universal"))
	w.repo.Publish()
	w.mustSend()
	w.shows("1.0.0")
	m, _ := w.Manifest()
	if len(m.Platforms) != 2 || m.Platforms["darwin-arm64"].File != "interlock-darwin-arm64" || m.Schema != 1 {
		t.Errorf("%+v", m)
	}
	linux, ok := w.Pointer("nightshift-linux.json")
	if !ok || linux.Version != "0.3.0" || len(linux.Platforms) != 1 || linux.Platforms["linux-amd64"].File != "nightshift-linux-amd64" {
		t.Errorf("%+v %v", linux, ok)
	}
	mac, ok := w.Pointer("nightshift-macos.json")
	if !ok || mac.Platforms["darwin-universal"].File != "nightshift-macos-universal.zip" {
		t.Errorf("%+v %v", mac, ok)
	}
	if _, ok := w.Pointer("nightshift-plan9.json"); ok {
		t.Error("a pointer for an unknown system")
	}
	for _, name := range []string{"interlock-tui-linux-amd64", "nightshift-macos-universal.zip", "interlock-darwin-arm64"} {
		f, known, err := w.Asset(name)
		if err != nil || !known {
			t.Fatal(name, known, err)
		}
		text, err := io.ReadAll(f)
		if err != nil || !strings.HasPrefix(string(text), "the bytes of ") {
			t.Error(name, string(text), err)
		}
	}
	_, known, err := w.Asset("interlock-linux-arm64") // it has an older version only
	if !known {
		t.Error("another version than the manifest's may come from elsewhere")
	}
	refusedWith(t, err, fault.NotFound, "no build for linux-arm64 is released")
	for _, name := range []string{"install-model-host.sh", "nightshift-linux-arm", "other"} {
		if _, known, _ := w.Asset(name); known {
			t.Error(name, "is said to be a released program")
		}
	}
}

// The digest in the path is the one that was signed, in lower-case hex.
func TestDigestsInPaths(t *testing.T) {
	w := newWorld(t)
	w.publish("1.0.0")
	for path, digest := range w.live.Load().targets {
		if b, err := hex.DecodeString(digest); err != nil || len(b) != 32 || !strings.Contains(path, "/"+digest+".") || strings.ToLower(digest) != digest {
			t.Error(path, digest)
		}
	}
}
