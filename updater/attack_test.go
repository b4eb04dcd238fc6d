package updater

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet/build"
	"interlock.sh/internal/testkit/tufrepo"
)

// attacked is a machine at 1.1.0 whose control plane turned against it.
func attacked(t *testing.T) *rig {
	r := newRig(t)
	r.release("1.1.0", "good")
	r.want(r.run(), Current, "1.1.0")
	return r
}

// refused checks that a pass takes nothing, says why in the report, and leaves what runs alone.
func (r *rig) refused(words ...string) {
	r.t.Helper()
	restarts := r.saw("den.client").Restarts
	n := r.run()
	r.want(n, Stopped, "1.1.0")
	r.why(n, words...)
	if got := r.saw("den.client"); got.Restarts != restarts || got.Program != "1.1.0 good" {
		r.t.Fatalf("the service was touched: %+v", got)
	}
	equal(r.t, "versions", versions(r.t, r.app), []string{"1.1.0", "1.0.0"})
}

func versions(t *testing.T, app string) []string {
	t.Helper()
	out, err := folder(app).versions(build.Interlock)
	must(t, err)
	return out
}

// through is the repository behind something that changes answers.
func (r *rig) through(change func(path string, w http.ResponseWriter, req *http.Request) bool) {
	s := tufrepo.Serve(r.t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !change(strings.TrimPrefix(req.URL.Path, tufrepo.Base+"/"), w, req) {
			r.repo.ServeHTTP(w, req)
		}
	}))
	o := origin(r.t, s)
	o.Name = r.Origins[0].Name // the same mirror, as far as the machine knows
	r.Origins = []Origin{o}
}

func TestAttackFreeze(t *testing.T) {
	t.Parallel()
	r := attacked(t)
	frozen := r.repo.Files()
	r.release("1.2.0", "good")
	honest := r.Origins
	o := origin(t, tufrepo.Serve(t, tufrepo.Copy(frozen)))
	o.Name = honest[0].Name
	r.Origins = []Origin{o}
	r.want(r.run(), Current, "1.1.0") // an old copy is fine while it is valid
	r.clock.Advance(tufrepo.Lives)
	r.refused("has expired: ", "timestamp.json is expired", "what is installed goes on")
}

func TestAttackRollback(t *testing.T) {
	t.Parallel()
	stolen := func(r *rig, roles ...string) { // the keys of these roles sign what the thief wants
		for _, role := range roles {
			r.repo.PublishAsIs(role)
		}
	}
	for name, attack := range map[string]func(r *rig){
		"timestamp": func(r *rig) {
			r.repo.Timestamp.Signed.Version = 1
			stolen(r, tufrepo.Timestamp)
		},
		"snapshot": func(r *rig) {
			r.repo.Snapshot.Signed.Version = 1
			stolen(r, tufrepo.Snapshot)
			r.repo.Publish(tufrepo.Timestamp)
		},
		"targets": func(r *rig) {
			r.repo.Targets.Signed.Version = 1
			stolen(r, tufrepo.Targets)
			r.repo.Publish(tufrepo.Snapshot, tufrepo.Timestamp)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := attacked(t)
			attack(r)
			r.refused("offers older metadata than this machine has seen")
		})
		t.Run(name+" after the copies were lost", func(t *testing.T) {
			t.Parallel()
			r := attacked(t)
			r.repo.Publish()
			r.run() // so that the highest are above the first ones in any case
			must(t, os.RemoveAll(filepath.Join(r.app, "trust", "mirrors")))
			attack(r)
			if name == "timestamp" {
				r.repo.Timestamp.Signed.Version = 2
				r.repo.PublishAsIs(tufrepo.Timestamp)
			}
			n := r.run()
			r.want(n, Stopped, "1.1.0")
			if n.Mirrors[0].OK || !strings.Contains(n.Mirrors[0].Why, "this machine has seen") {
				t.Fatalf("the mirror is %+v", n.Mirrors[0])
			}
		})
	}
}

// Parts of two valid sets make no set.
func TestAttackMixAndMatch(t *testing.T) {
	t.Parallel()
	for _, old := range []string{"snapshot.json", "targets.json"} {
		t.Run(old, func(t *testing.T) {
			t.Parallel()
			r := attacked(t)
			before := r.repo.Files()
			r.release("1.2.0", "good")
			r.through(func(path string, w http.ResponseWriter, _ *http.Request) bool {
				if path != "metadata/3."+old {
					return false
				}
				_, _ = w.Write(before["metadata/2."+old])
				return true
			})
			r.refused("offers older metadata")
		})
	}
}

// forever is a body without an end; it counts what was taken.
func forever(w http.ResponseWriter, taken *atomic.Int64) {
	chunk := bytes.Repeat([]byte(" "), 64<<10)
	for {
		n, err := w.Write(chunk)
		if taken.Add(int64(n)); err != nil {
			return
		}
	}
}

func TestAttackEndlessData(t *testing.T) {
	t.Parallel()
	for path, limit := range map[string]int64{
		"metadata/2.root.json": maxRoot, "metadata/timestamp.json": maxTimestamp, "metadata/3.snapshot.json": maxSnapshot,
		"metadata/3.targets.json": maxTargets, "targets/": 64 << 10,
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			r := attacked(t)
			r.release("1.2.0", "good")
			var taken atomic.Int64
			ended := make(chan struct{})
			r.through(func(at string, w http.ResponseWriter, _ *http.Request) bool {
				if !strings.HasPrefix(at, path) {
					return false
				}
				forever(w, &taken)
				close(ended)
				return true
			})
			words := "is larger than"
			if path == "targets/" {
				words = "sends more than the 10 bytes"
			}
			r.refused(words)
			<-ended
			if got := taken.Load(); got > limit+(16<<20) { // what the sockets hold counts as taken
				t.Errorf("%d bytes were taken; the limit is %d", got, limit)
			}
		})
	}
}

func TestAttackWrongFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, words string }{
		"other bytes": {"1.2.0 evil", "has SHA-256"},
		"shorter":     {"1.2.0 goo", "sent 9 bytes of interlock/1.2.0/interlock-linux-amd64; 10 were signed"},
		"longer":      {"1.2.0 good and more", "sends more than the 10 bytes"},
		"nothing":     {"", "sent 0 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := attacked(t)
			r.release("1.2.0", "good")
			honest := r.Origins
			r.through(func(path string, w http.ResponseWriter, _ *http.Request) bool {
				if !strings.HasPrefix(path, "targets/") {
					return false
				}
				_, _ = io.WriteString(w, c.body)
				return true
			})
			r.refused(c.words)
			r.Origins = honest
			r.want(r.run(), Current, "1.2.0")
		})
	}
}

// Release keys are a threshold of two: one stolen key signs nothing, and the keys of timestamp and
// snapshot sign no program.
func TestAttackStolenKey(t *testing.T) {
	t.Parallel()
	t.Run("one of two", func(t *testing.T) {
		t.Parallel()
		r := attacked(t)
		a, b := tufrepo.NewKey(t), tufrepo.NewKey(t)
		r.repo.SetKeys(tufrepo.Targets, 2, a, b)
		r.repo.Publish(tufrepo.Root, tufrepo.Targets, tufrepo.Snapshot, tufrepo.Timestamp)
		r.want(r.run(), Current, "1.1.0")
		r.repo.SignWith(tufrepo.Targets, a)
		r.release("1.2.0", "evil")
		r.refused("not signed by the keys that this machine trusts")
	})
	t.Run("the same twice", func(t *testing.T) {
		t.Parallel()
		r := attacked(t)
		a, b := tufrepo.NewKey(t), tufrepo.NewKey(t)
		r.repo.SetKeys(tufrepo.Targets, 2, a, b)
		r.repo.Publish(tufrepo.Root, tufrepo.Targets, tufrepo.Snapshot, tufrepo.Timestamp)
		r.want(r.run(), Current, "1.1.0")
		r.repo.SignWith(tufrepo.Targets, a, a)
		r.release("1.2.0", "evil")
		r.refused("no release metadata")
	})
	t.Run("timestamp and snapshot", func(t *testing.T) {
		t.Parallel()
		r := attacked(t)
		r.repo.SignWith(tufrepo.Targets, append(r.repo.Keys(tufrepo.Timestamp), r.repo.Keys(tufrepo.Snapshot)...)...)
		r.release("1.2.0", "evil")
		r.refused("not signed by the keys that this machine trusts")
	})
}

// A thief pushes the number of the timestamp up, so that honest ones look old. New keys are the way out.
func TestAttackFastForward(t *testing.T) {
	t.Parallel()
	r := attacked(t)
	r.repo.Timestamp.Signed.Version = 1 << 40
	r.repo.PublishAsIs(tufrepo.Timestamp)
	r.want(r.run(), Current, "1.1.0")
	r.repo.Timestamp.Signed.Version = 2
	r.release("1.2.0", "good")
	r.refused("offers older metadata")
	r.repo.SetKeys(tufrepo.Timestamp, 1, tufrepo.NewKey(t))
	r.repo.Publish(tufrepo.Root, tufrepo.Timestamp)
	r.want(r.run(), Current, "1.2.0")
}

// A mirror that trickles is left, for metadata and for programs; another one serves.
func TestAttackSlowRetrieval(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"metadata/timestamp.json", "metadata/3.targets.json", "targets/"} {
		for _, how := range []string{"no answer", "a byte"} {
			t.Run(path+" "+how, func(t *testing.T) {
				t.Parallel()
				r := attacked(t)
				r.release("1.2.0", "good")
				honest := r.Origins[0]
				honest.Name = "honest"
				r.through(func(at string, w http.ResponseWriter, req *http.Request) bool {
					if !strings.HasPrefix(at, path) {
						return false
					}
					if how == "a byte" {
						_, _ = io.WriteString(w, "1")
						_ = http.NewResponseController(w).Flush()
					}
					<-req.Context().Done()
					return true
				})
				r.Origins = append(r.Origins, honest)
				u := r.updater()
				u.patience = patience{5 * time.Second, 5 * time.Second, 2 * time.Minute} // for the honest one too, on a busy machine
				r.clock.Advance(DefaultMinEvery)
				n, err := u.Run(t.Context())
				must(t, err)
				r.want(n, Current, "1.2.0")
				if path != "targets/" && (n.Mirrors[0].OK || !strings.Contains(n.Mirrors[0].Why, "did not send")) {
					t.Errorf("the slow mirror is %+v", n.Mirrors[0])
				}
			})
		}
	}
}

// An attacker who holds the server and keys of his own.
func TestAttackArbitraryInstall(t *testing.T) {
	t.Parallel()
	evil := func(t *testing.T) *tufrepo.Repo {
		e := tufrepo.New(t, born)
		e.Add(build.Target{Program: build.Interlock, Version: "9.9.9", OS: "linux", Arch: "amd64", Channels: map[string]int{build.Stable: 100}}, []byte("9.9.9 evil"))
		e.Publish()
		return e
	}
	t.Run("his own repository", func(t *testing.T) {
		t.Parallel()
		r := attacked(t)
		e := evil(t)
		r.through(func(_ string, w http.ResponseWriter, req *http.Request) bool { e.ServeHTTP(w, req); return true })
		r.refused("not signed by the keys that this machine trusts")
	})
	t.Run("his own root after ours", func(t *testing.T) {
		t.Parallel()
		r := attacked(t)
		e := evil(t)
		e.Publish(tufrepo.Root) // 2.root.json
		r.through(func(_ string, w http.ResponseWriter, req *http.Request) bool { e.ServeHTTP(w, req); return true })
		r.refused("not signed by the keys that this machine trusts")
	})
}

func TestAttackWrongRootChain(t *testing.T) {
	t.Parallel()
	for name, attack := range map[string]func(r *rig){
		"not signed by the old keys": func(r *rig) {
			r.repo.SetKeys(tufrepo.Root, 1, tufrepo.NewKey(r.t))
			r.repo.Publish(tufrepo.Root)
		},
		"not signed by its own keys": func(r *rig) {
			old := r.repo.Keys(tufrepo.Root)
			r.repo.SetKeys(tufrepo.Root, 1, tufrepo.NewKey(r.t))
			r.repo.SignWith(tufrepo.Root, old...)
			r.repo.Publish(tufrepo.Root)
		},
		"a number left out": func(r *rig) {
			r.repo.Root.Signed.Version = 3
			r.repo.Put("metadata/2.root.json", r.repo.Signed(tufrepo.Root))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := attacked(t)
			attack(r)
			n := r.run()
			r.want(n, Stopped, "1.1.0")
			if _, root, err := folder(r.app).root(nil); err != nil || root.Signed.Version != 1 {
				t.Fatalf("the root of trust is %d, %v", root.Signed.Version, err)
			}
		})
	}
}

// Expired metadata of any role, the root's too, stops updating and nothing else.
func TestAttackExpired(t *testing.T) {
	t.Parallel()
	past := born.Add(-time.Hour)
	for role, expire := range map[string]func(r *rig){
		tufrepo.Root: func(r *rig) {
			r.repo.Root.Signed.Expires = past
			r.repo.Publish(tufrepo.Root)
		},
		tufrepo.Timestamp: func(r *rig) { r.repo.Timestamp.Signed.Expires = past },
		tufrepo.Snapshot:  func(r *rig) { r.repo.Snapshot.Signed.Expires = past },
		tufrepo.Targets:   func(r *rig) { r.repo.Targets.Signed.Expires = past },
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			r := attacked(t)
			expire(r)
			r.release("1.2.0", "good")
			r.refused("has expired", "what is installed goes on")
			v, err := VerifyInstalled(r.app, build.Interlock, "linux", "amd64")
			if err != nil || !v.Signed {
				t.Errorf("what runs is not verified any more: %+v, %v", v, err)
			}
		})
	}
}

func TestAttackUnsigned(t *testing.T) {
	t.Parallel()
	for _, role := range []string{tufrepo.Root, tufrepo.Timestamp, tufrepo.Snapshot, tufrepo.Targets} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			r := attacked(t)
			r.repo.SignWith(role)
			if role == tufrepo.Root {
				r.repo.Publish(tufrepo.Root)
			}
			r.release("1.2.0", "evil")
			r.refused("not signed by the keys that this machine trusts")
		})
	}
}

// Bytes that make the library stumble, and what a login page of a network answers.
func TestAttackNonsense(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"a login page":   "<html>Welcome to the hotel</html>",
		"nothing":        "",
		"null":           "null",
		"a null target":  `{"signatures":[],"signed":{"_type":"targets","spec_version":"1.0.31","version":3,"expires":"2099-01-01T00:00:00Z","targets":{"a":null}}}`,
		"no signed part": `{"signatures":[]}`,
		"deep":           strings.Repeat("[", 10000),
	} {
		for _, path := range []string{"metadata/2.root.json", "metadata/timestamp.json", "metadata/3.snapshot.json", "metadata/3.targets.json"} {
			t.Run(name+" as "+path, func(t *testing.T) {
				t.Parallel()
				r := attacked(t)
				r.release("1.2.0", "good")
				r.through(func(at string, w http.ResponseWriter, _ *http.Request) bool {
					if at != path {
						return false
					}
					_, _ = io.WriteString(w, body)
					return true
				})
				r.refused()
			})
		}
	}
}

// Targets that no machine may take are passed over, also when they are signed.
func TestBadTargetsArePassedOver(t *testing.T) {
	t.Parallel()
	description := func(b build.Target) []byte {
		return []byte(`{"program":"` + b.Program + `","version":"` + b.Version + `","os":"` + b.OS + `","arch":"` + b.Arch + `","channels":{"stable":100}}`)
	}
	good := build.Target{Program: "interlock", Version: "9.0.0", OS: "linux", Arch: "amd64"}
	for name, c := range map[string]struct{ path, custom string }{
		"a path in the version":   {"interlock/../../etc/interlock-linux-amd64", string(description(build.Target{Program: "interlock", Version: "../../etc", OS: "linux", Arch: "amd64"}))},
		"another file's":          {"interlock/9.0.0/interlock-linux-arm64", string(description(good))},
		"an unknown platform":     {"interlock/9.0.0/interlock-plan9-mips", string(description(build.Target{Program: "interlock", Version: "9.0.0", OS: "plan9", Arch: "mips"}))},
		"an unknown program":      {"sh/9.0.0/sh-linux-amd64", string(description(build.Target{Program: "sh", Version: "9.0.0", OS: "linux", Arch: "amd64"}))},
		"no description":          {"interlock/9.0.0/interlock-linux-amd64", ""},
		"a broken description":    {"interlock/9.0.0/interlock-linux-amd64", `{"program":7}`},
		"a version with a v":      {"interlock/v9.0.0/interlock-linux-amd64", string(description(build.Target{Program: "interlock", Version: "v9.0.0", OS: "linux", Arch: "amd64"}))},
		"a percentage beyond 100": {"interlock/9.0.0/interlock-linux-amd64", strings.Replace(string(description(good)), "100", "101", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := attacked(t)
			var custom []byte
			if c.custom != "" {
				custom = []byte(c.custom)
			}
			r.repo.AddAt(c.path, custom, []byte("9.0.0 evil"))
			r.repo.Publish()
			r.want(r.run(), Current, "1.1.0")
		})
	}
	t.Run("too large", func(t *testing.T) {
		t.Parallel()
		r := attacked(t)
		b := good
		b.Channels = map[string]int{build.Stable: 100}
		r.repo.Add(b, []byte("9.0.0 evil"))
		r.repo.Targets.Signed.Targets[b.Path()].Length = maxTarget + 1
		r.repo.Publish()
		r.refused("a program has 1 to 1073741824")
	})
}

// A clock that is wrong makes all metadata look expired: it is named as what it is.
func TestAWrongClockIsNamed(t *testing.T) {
	t.Parallel()
	r := attacked(t)
	ahead := &leap{now: time.Now().Add(20 * 365 * 24 * time.Hour)}
	c, err := client.New(client.Options{BaseURL: r.server.URL, Clock: ahead})
	must(t, err)
	r.Origins[0].Client, r.Options.Clock, r.clock = c, ahead, ahead
	n, err := r.updater().Check(t.Context())
	if !errors.Is(err, fault.Conflict) || contains(err, "has expired", "this machine's clock differs from its clock by -1", "set the clock first") != nil {
		t.Fatalf("%v", err)
	}
	r.want(n, Stopped, "1.1.0")
}
