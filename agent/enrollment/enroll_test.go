package enrollment_test

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"interlock.sh/agent/enrollment"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/testkit/plane"
)

// site is a control plane with a group, and a machine that has not joined it.
type site struct {
	*testing.T
	plane *plane.Plane
	group plane.Group
	home  enrollment.Home
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, plane: plane.Start(t, plane.Options{}), home: enrollment.Home(filepath.Join(t.TempDir(), "ns"))}
	s.group = s.plane.NewGroup(nil, "garage")
	return s
}

func (s *site) request() enrollment.Request {
	return enrollment.Request{
		Origin: s.plane.URL, Group: s.group.Name, Role: fleet.RoleClient, Key: s.group.Keys[fleet.RoleClient],
		Name: "mini", HostID: "host-1", Version: "test",
	}
}

func (s *site) enroll(req enrollment.Request) enrollment.Result {
	s.Helper()
	res, err := s.home.Enroll(s.Context(), req)
	if err != nil {
		s.Fatal("enroll:", err)
	}
	return res
}

// machines are how many the group has.
func (s *site) machines() int {
	s.Helper()
	all, err := s.plane.Owner.Machines(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return len(all)
}

// works says whether the stored credential is good for something.
func works(t *testing.T, e enrollment.Enrollment) error {
	t.Helper()
	c, err := e.Client("test")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Self(t.Context())
	return err
}

func TestTheKeyIsExchangedOnceAndStaysNowhere(t *testing.T) {
	s := newSite(t)
	req := s.request()
	req.Origin += "/" // as people type it
	res := s.enroll(req)
	if res.Kept || res.Note != "" || res.Group != s.group.ID || res.GroupName != "garage" || res.Runtime != fleet.LlamaCpp || res.Origin != s.plane.URL {
		t.Errorf("enrolled as %+v", res)
	}
	if err := works(t, res.Enrollment); err != nil {
		t.Errorf("its credential: %v", err)
	}
	modes := map[string]fs.FileMode{}
	err := filepath.WalkDir(string(s.home), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		modes[d.Name()] = info.Mode().Perm()
		if want := fs.FileMode(0o077); info.Mode().Perm()&want != 0 && d.Name() != "enroll.lock" {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if d.IsDir() {
			return nil
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), req.Key) {
			t.Errorf("%s has the bootstrap key", path)
		}
		if secret := strings.Contains(string(b), "INTERLOCK_MACHINE_CREDENTIAL"); secret != (d.Name() == "worker.env") {
			t.Errorf("%s has the credential: %v", path, secret)
		}
		return err
	})
	if err != nil || modes["worker.env"] != 0o600 || modes["group.json"] != 0o600 || modes["role.json"] != 0o600 || modes["client"] != 0o700 {
		t.Errorf("modes are %v, %v", modes, err)
	}
	// Both bootstrap keys enroll; the roles of a group live side by side.
	req.Role, req.Key = fleet.RoleTrainer, s.group.Keys[fleet.RoleTrainer]
	s.enroll(req)
	if all, err := s.home.List(); err != nil || len(all) != 2 {
		t.Errorf("listed %d, %v", len(all), err)
	}
}

func TestARerunKeepsTheCredential(t *testing.T) {
	s := newSite(t)
	first := s.enroll(s.request())
	rotated, err := s.plane.Owner.RotateGroupKey(t.Context(), s.group.ID, fleet.RoleClient)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(first.Dir(), "owner.json"), []byte(`{"mode":"paused"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ key, group, note string }{
		"no key":              {"", s.group.Name, ""},
		"by id":               {"", s.group.ID, ""},
		"the key of before":   {s.group.Keys[fleet.RoleClient], s.group.Name, "keeps its credential, the key was not used"},
		"the rotated key":     {rotated.Key, s.group.Name, "keeps its credential, the key was not used"},
		"a key that is wrong": {"none", s.group.Name, "keeps its credential, the key was not used"},
	} {
		req := s.request()
		req.Key, req.Group = c.key, c.group
		res := s.enroll(req)
		if !res.Kept || res.Machine != first.Machine || !strings.HasSuffix(res.Note, c.note) || (c.note == "") != (res.Note == "") {
			t.Errorf("%s: kept %v, note %q", name, res.Kept, res.Note)
		}
	}
	if n := s.machines(); n != 1 {
		t.Errorf("%d machines", n)
	}
	if _, err := os.Stat(filepath.Join(first.Dir(), "owner.json")); err != nil {
		t.Errorf("the owner's wish is gone: %v", err)
	}
}

func TestARerunWithAnotherRuntimeNamesBothAndTheWayOut(t *testing.T) {
	s := newSite(t)
	first := s.enroll(s.request())
	req := s.request()
	req.Key, req.Runtime = "", fleet.MLXLM
	res := s.enroll(req)
	want := "it was enrolled with runtime llama.cpp and goes on with that, not with mlx-lm: to change it, interlock models machine revoke " + first.Machine +
		", then paste a line of interlock models key rotate client --group " + s.group.ID + " with --runtime mlx-lm added"
	if !res.Kept || res.Runtime != fleet.LlamaCpp || res.Note != want {
		t.Errorf("without a key: %+v", res)
	}
	req.Key = "any"
	if res = s.enroll(req); !res.Kept || res.Note != "this machine is enrolled already: it keeps its credential, the key was not used; "+want {
		t.Errorf("with a key: %q", res.Note)
	}
	// The way out is one.
	if _, err := s.plane.Owner.ActOnMachine(t.Context(), first.Machine, "revoke"); err != nil {
		t.Fatal(err)
	}
	req.Key = s.group.Keys[fleet.RoleClient]
	if res = s.enroll(req); res.Kept || res.Runtime != fleet.MLXLM {
		t.Errorf("after the machine was revoked: %+v", res)
	}
	// The plain line, which names no runtime, is content with what is there.
	req.Key, req.Runtime = "", ""
	if res = s.enroll(req); !res.Kept || res.Runtime != fleet.MLXLM || res.Note != "" {
		t.Errorf("without a runtime: %+v", res)
	}
}

func TestWithoutAKeyThatIsGoodNothingIsWritten(t *testing.T) {
	s := newSite(t)
	for name, c := range map[string]struct {
		change func(*enrollment.Request)
		code   fault.Code
	}{
		"no key":             {func(r *enrollment.Request) { r.Key = "" }, fault.Unauthenticated},
		"a key that is none": {func(r *enrollment.Request) { r.Key = "none" }, fault.Unauthenticated},
		"the other role's":   {func(r *enrollment.Request) { r.Key = s.group.Keys[fleet.RoleTrainer] }, fault.ScopeDenied},
		"an unknown group":   {func(r *enrollment.Request) { r.Group = "none" }, fault.ScopeDenied},
		"no origin":          {func(r *enrollment.Request) { r.Origin = "" }, fault.Invalid},
		"no group":           {func(r *enrollment.Request) { r.Group = "" }, fault.Invalid},
		"no such role":       {func(r *enrollment.Request) { r.Role = "boss" }, fault.Invalid},
		"no such runtime":    {func(r *enrollment.Request) { r.Runtime = "x" }, fault.Invalid},
		"nobody there":       {func(r *enrollment.Request) { r.Origin = "http://127.0.0.1:1" }, fault.Unavailable},
	} {
		req := s.request()
		c.change(&req)
		_, err := s.home.Enroll(t.Context(), req)
		if !errors.Is(err, c.code) {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
		if all, err := s.home.List(); err != nil || len(all) != 0 {
			t.Errorf("%s: left %v, %v", name, all, err)
		}
	}
}

func TestARevokedCredentialIsExchangedForANewOneWithAKeyOnly(t *testing.T) {
	s := newSite(t)
	first := s.enroll(s.request())
	env := filepath.Join(first.Dir(), "worker.env")
	b, err := os.ReadFile(env)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(env, append(b, "LLAMA_SERVER=/opt/llama-server\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.plane.Owner.ActOnMachine(t.Context(), first.Machine, "revoke"); err != nil {
		t.Fatal(err)
	}
	req := s.request()
	req.Key = ""
	if _, err := s.home.Enroll(t.Context(), req); !errors.Is(err, fault.Revoked) || !strings.Contains(err.Error(), "interlock models key rotate client") {
		t.Errorf("without a key: %v", err)
	}
	req.Key = "none"
	if _, err := s.home.Enroll(t.Context(), req); err == nil {
		t.Error("a key that is none was taken")
	}
	if again, err := s.home.Load(s.group.ID, fleet.RoleClient); err != nil || again.Machine != first.Machine {
		t.Errorf("a refused exchange changed the enrollment: %+v, %v", again, err)
	}
	res := s.enroll(s.request())
	if res.Kept || res.Machine == first.Machine || !strings.Contains(res.Note, "was revoked") {
		t.Errorf("with a key: %+v", res)
	}
	if err := works(t, res.Enrollment); err != nil {
		t.Errorf("the new credential: %v", err)
	}
	if got, err := res.Env(); err != nil || got[enrollment.EnvLlamaServer] != "/opt/llama-server" {
		t.Errorf("the owner's settings: %v, %v", got, err)
	}
}

func TestACredentialThatTheControlPlaneDoesNotKnowIsAsGoodAsRevoked(t *testing.T) {
	s := newSite(t)
	first := s.enroll(s.request())
	env := filepath.Join(first.Dir(), "worker.env")
	if err := os.WriteFile(env, []byte("INTERLOCK_MACHINE_CREDENTIAL=none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	req := s.request()
	req.Key = ""
	if _, err := s.home.Enroll(t.Context(), req); !errors.Is(err, fault.Unauthenticated) || !strings.Contains(err.Error(), "unknown to the control plane") {
		t.Errorf("without a key: %v", err)
	}
	if res := s.enroll(s.request()); res.Kept || works(t, res.Enrollment) != nil {
		t.Errorf("with one: %+v", res)
	}
}

func TestAControlPlaneThatIsAwayIsNoReasonToThrowACredentialAway(t *testing.T) {
	s := newSite(t)
	first := s.enroll(s.request())
	s.plane.Stop()
	for _, key := range []string{"", "some"} {
		req := s.request()
		req.Key = key
		if res := s.enroll(req); !res.Kept || res.Machine != first.Machine || !strings.Contains(res.Note, "could not be asked") {
			t.Errorf("key %q: %+v", key, res)
		}
	}
	// Neither is something in between that asks for a password.
	portal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer portal.Close()
	group := filepath.Join(s.home.Group(s.group.ID), "group.json")
	b, err := os.ReadFile(group)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(group, []byte(strings.ReplaceAll(string(b), s.plane.URL, portal.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	req := s.request()
	req.Origin = portal.URL
	if res := s.enroll(req); !res.Kept || res.Machine != first.Machine {
		t.Errorf("behind a portal: %+v", res)
	}
}

func TestACopiedFolderEnrollsItsOwnComputer(t *testing.T) {
	s := newSite(t)
	first := s.enroll(s.request())
	req := s.request()
	req.HostID, req.Key = "host-2", ""
	if _, err := s.home.Enroll(t.Context(), req); !errors.Is(err, fault.Unauthenticated) || !strings.Contains(err.Error(), "another computer (mini)") {
		t.Errorf("without a key: %v", err)
	}
	req.Key, req.Name = s.group.Keys[fleet.RoleClient], "maxi"
	res := s.enroll(req)
	if res.Kept || res.Machine == first.Machine || res.HostID != "host-2" || !strings.Contains(res.Note, "came from another computer") {
		t.Errorf("with one: %+v", res)
	}
	if n := s.machines(); n != 2 {
		t.Errorf("%d machines, want both", n)
	}
}

func TestOfEnrollmentsThatRaceOneExchanges(t *testing.T) {
	s := newSite(t)
	var all sync.WaitGroup
	results := make([]enrollment.Result, 6)
	errs := make([]error, len(results))
	for i := range results {
		all.Go(func() { results[i], errs[i] = s.home.Enroll(t.Context(), s.request()) })
	}
	all.Wait()
	exchanged := 0
	for i, res := range results {
		if errs[i] != nil || res.Machine != results[0].Machine {
			t.Errorf("%+v, %v", res, errs[i])
		}
		if !res.Kept {
			exchanged++
		}
	}
	if n := s.machines(); exchanged != 1 || n != 1 {
		t.Errorf("%d exchanges, %d machines", exchanged, n)
	}
}

func TestWaitingForAnotherEnrollmentEndsWithTheContext(t *testing.T) {
	s := newSite(t)
	inside, release := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(inside); <-release }))
	defer slow.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		req := s.request()
		req.Origin = slow.URL
		_, _ = s.home.Enroll(ctx, req) // it is broken off
	}()
	<-inside
	second, give := context.WithCancel(t.Context())
	give()
	if _, err := s.home.Enroll(second, s.request()); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	cancel()
	close(release)
	<-ended
}

func TestAControlPlaneCannotNameAFolderOutside(t *testing.T) {
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"machine":"m","credential":"c","group":"../../escape","groupName":"g","project":"p","role":"client","runtime":"llama.cpp"}`))
	}))
	defer evil.Close()
	home := enrollment.Home(filepath.Join(t.TempDir(), "a", "b"))
	_, err := home.Enroll(t.Context(), enrollment.Request{Origin: evil.URL, Group: "g", Role: fleet.RoleClient, Key: "k", Name: "n", HostID: "h"})
	if err == nil || !strings.Contains(err.Error(), "cannot be a folder") {
		t.Errorf("%v", err)
	}
}
