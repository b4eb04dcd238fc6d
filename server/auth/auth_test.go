package auth_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"interlock.sh/access"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/clock"
	"interlock.sh/server/auth"
	"interlock.sh/server/hints"
	"interlock.sh/server/store"
)

// fixture is a service over a real database, on a clock that the test moves, with the project "demo".
type fixture struct {
	*auth.Service
	t     *testing.T
	ctx   context.Context //nolint:containedctx // a test's own
	db    *store.DB
	dir   string
	clock *clock.Fake
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, ctx: t.Context(), dir: t.TempDir(), clock: clock.NewFake(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
	db, err := store.Open(f.ctx, store.Options{Dir: f.dir, Clock: f.clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	f.db, f.Service = db, auth.New(db, new(hints.Hub))
	return f
}

// account signs in with a fresh owner token.
func (f *fixture) account(name string) (token, id string) {
	f.t.Helper()
	secret, err := f.NewOwnerToken(f.ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	login, err := f.Login(f.ctx, access.LoginRequest{Token: secret, Name: name})
	if err != nil {
		f.t.Fatal(err)
	}
	p, err := f.Authenticate(f.ctx, login.Token)
	if err != nil || p.Kind != access.Account {
		f.t.Fatal(p, err)
	}
	return login.Token, p.Account
}

func (f *fixture) project(account, id string) {
	f.t.Helper()
	if _, err := f.NewProject(f.ctx, account, access.NewProjectRequest{ID: id}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) key(kind access.Kind) access.NewKey {
	f.t.Helper()
	k, err := f.NewKey(f.ctx, "demo", access.NewKeyRequest{Kind: kind, Label: "for " + string(kind)})
	if err != nil {
		f.t.Fatal(err)
	}
	return k
}

func TestLogin(t *testing.T) {
	f := newFixture(t)
	first, err := f.FirstOwnerToken(f.ctx)
	if err != nil || first == "" {
		t.Fatal(err)
	}
	if again, err := f.FirstOwnerToken(f.ctx); err != nil || again != "" {
		t.Errorf("a second first token %q %v", again, err)
	}
	login, err := f.Login(f.ctx, access.LoginRequest{Token: first})
	if err != nil || login.Account != "owner" {
		t.Fatal(login, err)
	}
	if again, err := f.FirstOwnerToken(f.ctx); err != nil || again != "" {
		t.Errorf("a first token beside an account %q %v", again, err)
	}
	proved, err := f.Login(f.ctx, access.LoginRequest{Token: login.Token})
	if err != nil || proved != login {
		t.Errorf("an account's own token: %+v %v", proved, err)
	}
	_, owner := f.account("owner") // a new token of the same account
	p, err := f.Authenticate(f.ctx, login.Token)
	if err != nil || p.Account != owner {
		t.Errorf("two accounts of one name: %s and %s, %v", p.Account, owner, err)
	}
	f.project(owner, "demo")
	for kind, code := range map[access.Kind]fault.Code{access.SDK: fault.ScopeDenied, access.Metrics: fault.ScopeDenied} {
		if _, err := f.Login(f.ctx, access.LoginRequest{Token: f.key(kind).Key}); !errors.Is(err, code) {
			t.Errorf("login with a key of kind %s: %v", kind, err)
		}
	}
	secret, err := f.NewOwnerToken(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{strings.Repeat("x", 121), "a\nb", " "} {
		if _, err := f.Login(f.ctx, access.LoginRequest{Token: secret, Name: name}); fault.Of(err).Field != "name" {
			t.Errorf("name %q: %v", name, err)
		}
	}
	if _, err := f.Login(f.ctx, access.LoginRequest{Token: secret, Name: "second"}); err != nil {
		t.Errorf("a refusal used the token up: %v", err)
	}
}

// An owner token is used once, also by two at once.
func TestAnOwnerTokenIsUsedOnce(t *testing.T) {
	f := newFixture(t)
	secret, err := f.NewOwnerToken(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { _, errs[i] = f.Login(f.ctx, access.LoginRequest{Token: secret}) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, fault.Revoked) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d logins", won)
	}
}

func TestOwnerTokensExpire(t *testing.T) {
	f := newFixture(t)
	secret, err := f.NewOwnerToken(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(auth.OwnerTokenLife - time.Millisecond)
	if p, err := f.Authenticate(f.ctx, secret); err != nil || p.Kind != access.Owner {
		t.Errorf("just before: %v", err)
	}
	f.clock.Advance(time.Millisecond)
	_, err = f.Authenticate(f.ctx, secret)
	if e := fault.Of(err); e.Code != fault.Unauthenticated || !strings.Contains(e.Hint, "admin owner-token") || strings.Contains(e.Error(), secret) {
		t.Errorf("just after: %v", err)
	}
}

func TestRefusalsShowNoSecret(t *testing.T) {
	f := newFixture(t)
	_, owner := f.account("owner")
	f.project(owner, "demo")
	key := f.key(access.SDK)
	if _, err := f.RevokeKey(f.ctx, "demo", key.ID); err != nil {
		t.Fatal(err)
	}
	for name, secret := range map[string]string{"revoked": key.Key, "unknown": "il_" + strings.Repeat("ab", 24), "short": "secret", "none": ""} {
		_, err := f.Authenticate(f.ctx, secret)
		if e := fault.Of(err); err == nil || e.Code.Status() != 401 || e.Hint == "" || secret != "" && strings.Contains(e.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is stored cannot be presented: only hashes stand on the disk.
func TestSecretsAreNotOnTheDisk(t *testing.T) {
	f := newFixture(t)
	token, owner := f.account("owner")
	f.project(owner, "demo")
	secrets := []string{token, f.key(access.SDK).Key, f.key(access.TaskWorker).Key}
	files, err := filepath.Glob(filepath.Join(f.dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a folder
		}
		for _, s := range secrets {
			if strings.Contains(string(text), s) {
				t.Errorf("a secret stands in %s", filepath.Base(file))
			}
		}
	}
}

func TestKeys(t *testing.T) {
	f := newFixture(t)
	_, owner := f.account("owner")
	f.project(owner, "demo")
	f.project(owner, "other")
	for _, kind := range access.ProjectKinds {
		t.Run(string(kind), func(t *testing.T) {
			old := f.key(kind)
			if p, err := f.Authenticate(f.ctx, old.Key); err != nil || p.Kind != kind || p.Project != "demo" || p.KeyID != old.ID || p.Account != "" {
				t.Fatalf("%+v %v", p, err)
			}
			if !strings.HasPrefix(old.Key, "il_") || !strings.HasPrefix(old.Key, strings.TrimSuffix(old.Prefix, "…")) || len(old.Scopes) == 0 {
				t.Errorf("%+v", old.KeyView)
			}
			next, err := f.RollKey(f.ctx, "demo", old.ID)
			if err != nil || next.Kind != kind || next.Label != old.Label || next.Key == old.Key {
				t.Fatalf("%+v %v", next, err)
			}
			_, err = f.Authenticate(f.ctx, old.Key)
			if worker := kind == access.TaskWorker; worker != (err == nil) || !worker && !errors.Is(err, fault.Revoked) {
				t.Errorf("the old key after a roll: %v", err)
			}
			for range 2 { // again changes nothing
				view, err := f.RevokeKey(f.ctx, "demo", next.ID)
				if err != nil || view.RevokedAt == nil || !view.RevokedAt.Equal(f.clock.Now()) {
					t.Errorf("%+v %v", view, err)
				}
			}
			if _, err := f.Authenticate(f.ctx, next.Key); !errors.Is(err, fault.Revoked) {
				t.Errorf("a revoked key: %v", err)
			}
			for name, err := range map[string]error{
				"roll a revoked one":       second(f.RollKey(f.ctx, "demo", next.ID)),
				"roll in another project":  second(f.RollKey(f.ctx, "other", old.ID)),
				"revoke in another":        second(f.RevokeKey(f.ctx, "other", old.ID)),
				"revoke what is not there": second(f.RevokeKey(f.ctx, "demo", "key_nothing")),
			} {
				if code := fault.CodeOf(err); code != fault.NotFound && code != fault.Conflict {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	keys, err := f.Keys(f.ctx, "demo")
	if err != nil || len(keys) != 2*len(access.ProjectKinds) {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	if _, err := f.NewKey(f.ctx, "nothing", access.NewKeyRequest{Kind: access.SDK, Label: "x"}); !errors.Is(err, fault.NotFound) {
		t.Errorf("a key of no project: %v", err)
	}
	for _, kind := range []access.Kind{access.Account, access.Owner, access.Machine, access.Client, access.Trainer, "", "boss"} {
		if _, err := f.NewKey(f.ctx, "demo", access.NewKeyRequest{Kind: kind, Label: "x"}); fault.Of(err).Field != "kind" {
			t.Errorf("kind %q: %v", kind, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// Keys of the administration cannot reach bootstrap keys and machines.
func TestKeysOfOtherRoomsAreNotKeysOfTheProject(t *testing.T) {
	f := newFixture(t)
	_, owner := f.account("owner")
	f.project(owner, "demo")
	var boot fleet.BootstrapKey
	err := f.db.Write(f.ctx, store.LaneAdmit, func(tx *store.Tx) (err error) {
		boot, err = auth.NewBootstrapKey(tx, "demo", "group-x", fleet.RoleClient)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.RevokeKey(f.ctx, "demo", boot.ID); !errors.Is(err, fault.NotFound) {
		t.Errorf("a bootstrap key is revoked as a key: %v", err)
	}
	if keys, err := f.Keys(f.ctx, "demo"); err != nil || len(keys) != 0 {
		t.Errorf("listed as %+v %v", keys, err)
	}
	// A proof that was made before a rotation pays for nothing after it.
	p, err := f.Authenticate(f.ctx, boot.Key)
	if err != nil || p.Kind != access.Client || p.Group != "group-x" || p.Role != fleet.RoleClient || p.Project != "demo" {
		t.Fatalf("%+v %v", p, err)
	}
	still := func() error {
		return f.db.Write(f.ctx, store.LaneAdmit, func(tx *store.Tx) error { return auth.StillValid(tx, p) })
	}
	if err := still(); err != nil {
		t.Error(err)
	}
	err = f.db.Write(f.ctx, store.LaneAdmit, func(tx *store.Tx) error {
		_, err := auth.NewBootstrapKey(tx, "demo", "group-x", fleet.RoleTrainer)
		return err
	})
	if err != nil || still() != nil {
		t.Errorf("the other role's rotation: %v, then %v", err, still())
	}
	err = f.db.Write(f.ctx, store.LaneAdmit, func(tx *store.Tx) error {
		_, err := auth.NewBootstrapKey(tx, "demo", "group-x", fleet.RoleClient)
		return err
	})
	if err != nil || !errors.Is(still(), fault.Revoked) {
		t.Errorf("its own rotation: %v, then %v", err, still())
	}
}

func TestProjectsAndMembers(t *testing.T) {
	f := newFixture(t)
	_, one := f.account("one")
	f.project(one, "early")
	_, two := f.account("two") // the owner of the machine rules what is there
	f.project(two, "late")
	for _, c := range []struct {
		account, project string
		member           bool
	}{{one, "early", true}, {two, "early", true}, {two, "late", true}, {one, "late", false}, {one, "nothing", false}} {
		if got, err := f.Member(f.ctx, c.account, c.project); err != nil || got != c.member {
			t.Errorf("%s in %s: %v %v", c.account, c.project, got, err)
		}
	}
	if ps, err := f.Projects(f.ctx, two); err != nil || len(ps) != 2 || ps[0].ID != "early" || ps[0].Name != "early" {
		t.Errorf("%+v %v", ps, err)
	}
	if _, err := f.NewProject(f.ctx, one, access.NewProjectRequest{ID: "late"}); !errors.Is(err, fault.Conflict) {
		t.Errorf("an id twice: %v", err)
	}
	if got, err := f.Member(f.ctx, one, "late"); err != nil || got {
		t.Error("the refused one became a member")
	}
	for _, id := range []string{"", "A", "a b", "-a", "ä", strings.Repeat("a", 64), "a/b", "../a"} {
		if _, err := f.NewProject(f.ctx, one, access.NewProjectRequest{ID: id}); fault.Of(err).Field != "id" {
			t.Errorf("id %q: %v", id, err)
		}
	}
}

// The last use of a key is written to the minute, by Flush; what could not be written is kept.
func TestLastUse(t *testing.T) {
	f := newFixture(t)
	_, owner := f.account("owner")
	f.project(owner, "demo")
	key := f.key(access.SDK)
	f.clock.Advance(90 * time.Second)
	if _, err := f.Authenticate(f.ctx, key.Key); err != nil {
		t.Fatal(err)
	}
	lastUse := func() *time.Time {
		t.Helper()
		keys, err := f.Keys(f.ctx, "demo")
		if err != nil || len(keys) != 1 {
			t.Fatal(err)
		}
		return keys[0].LastUsed
	}
	if got := lastUse(); got != nil {
		t.Errorf("written at once: %v", got)
	}
	given, cancel := context.WithCancel(f.ctx)
	cancel()
	if err := f.Flush(given); err == nil {
		t.Error("a flush that was given up says nothing")
	}
	if err := f.Flush(f.ctx); err != nil {
		t.Fatal(err)
	}
	if got := lastUse(); got == nil || !got.Equal(time.Date(2026, 3, 1, 12, 1, 0, 0, time.UTC)) {
		t.Errorf("last use %v", got)
	}
	if err := f.Flush(f.ctx); err != nil {
		t.Error(err)
	}
}
