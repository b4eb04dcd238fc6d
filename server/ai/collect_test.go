package serverai_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"interlock.sh/ai"
	"interlock.sh/fleet"
	"interlock.sh/internal/clock"
	"interlock.sh/server/ai"
	"interlock.sh/server/files"
	"interlock.sh/server/hints"
	"interlock.sh/server/store"
	"interlock.sh/server/tasks"
	"interlock.sh/tasks"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// oneMachine is a fleet of a machine that serves one deployment.
type oneMachine struct{ serverai.Fleet }

func (oneMachine) Resolve(context.Context, string, string) (fleet.Deployment, bool, error) {
	return fleet.Deployment{ID: "dep", Alias: "tiny", Route: "r"}, true, nil
}

func (oneMachine) Machines(context.Context, string) ([]fleet.Machine, error) {
	return []fleet.Machine{{ID: "m", Mode: fleet.Active, State: fleet.State{Kind: fleet.StateReady}}}, nil
}

// rig is the AI runs of a plane whose only parts are a store, tasks and files.
type rig struct {
	t     *testing.T
	clock *clock.Fake
	db    *store.DB
	files *files.Store
	runs  *serverai.Service
}

func newRig(t *testing.T) *rig {
	t.Helper()
	ctx := context.Background()
	r := &rig{t: t, clock: clock.NewFake(noon)}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	r.db, err = store.Open(ctx, store.Options{Dir: t.TempDir(), Clock: r.clock})
	must(err)
	r.files, err = files.New(files.Options{Dir: t.TempDir(), Clock: r.clock})
	must(err)
	must(r.db.Write(ctx, store.LaneAdmit, func(tx *store.Tx) error {
		for _, row := range []string{
			"INSERT INTO projects (id, name, created_at) VALUES ('p', 'p', 0)",
			"INSERT INTO model_groups (id, name, project, created_at) VALUES ('g', 'g', 'p', 0)",
			"INSERT INTO releases (id, model_group, name, runtime, files, args, context_length, slots, license, architecture, digest, created_at) VALUES ('rel', 'g', 'r', '', '[]', '[]', 1, 1, '', '', '', 0)",
			"INSERT INTO deployments (id, project, model_group, alias, release_id, settings, route, created_at) VALUES ('dep', 'p', 'g', 'tiny', 'rel', '{}', 'r', 0)",
		} {
			if _, err := tx.Exec(row); err != nil {
				return err
			}
		}
		return nil
	}))
	work := servertasks.New(servertasks.Options{DB: r.db, Clock: r.clock})
	r.runs = serverai.New(r.db, work, oneMachine{}, r.files, new(hints.Hub))
	_, err = work.Register(ctx, servertasks.Caller{Project: "p", Machine: "m"}, tasks.RegisterRequest{
		WorkerID: "m", MaxConcurrent: 1, Pools: []string{fleet.Pool("dep")}, Handlers: []tasks.Handler{{Type: ai.ChatType, SchemaVersion: ai.ChatVersion, EffectSafety: tasks.Pure}},
	})
	must(err)
	t.Cleanup(func() {
		must(work.Close(ctx))
		must(r.db.Close(ctx))
		r.files.Close()
	})
	return r
}

// submit admits a run and returns it with the digest of its body.
func (r *rig) submit(prompt, key string) (ai.Run, string) {
	r.t.Helper()
	run, err := r.runs.Submit(r.t.Context(), "p", ai.RunRequest{Model: "tiny", Prompt: prompt, IdempotencyKey: key})
	if err != nil {
		r.t.Fatal(err)
	}
	chat, err := serverai.ChatOf(ai.RunRequest{Prompt: prompt})
	if err != nil {
		r.t.Fatal(err)
	}
	text, err := json.Marshal(chat)
	if err != nil {
		r.t.Fatal(err)
	}
	return run, files.RefOf(text).SHA256
}

func (r *rig) end(run ai.Run) {
	r.t.Helper()
	if got, err := r.runs.Cancel(r.t.Context(), "p", run.ID, ""); err != nil || got.State != tasks.Cancelled {
		r.t.Fatal(got.State, err)
	}
}

// collected runs the collector as if so much time had passed, and checks what is left.
func (r *rig) collected(what string, after time.Duration, deleted int, digest string, there bool) {
	r.t.Helper()
	n, err := r.runs.Collect(r.t.Context(), r.clock.Now().Add(after))
	has, err2 := r.files.Has(digest)
	if err != nil || err2 != nil || n != deleted || has != there {
		r.t.Errorf("%s: %d deleted, still there: %v; want %d, %v; %v %v", what, n, has, deleted, there, err, err2)
	}
}

const day = 24 * time.Hour

func TestABodyGoesADayAfterItsRunEnded(t *testing.T) {
	r := newRig(t)
	run, digest := r.submit("hi", "")
	r.collected("the run waits", 30*day, 0, digest, true)
	r.clock.Advance(time.Minute)
	r.end(run)
	r.collected("within the day", day-time.Millisecond, 0, digest, true)
	r.collected("after it", day, 1, digest, false)
	r.collected("again", 2*day, 0, digest, false)
	if got, err := r.runs.Get(t.Context(), "p", run.ID); err != nil || got.State != tasks.Cancelled {
		t.Errorf("the run reads %+v, %v", got, err)
	}
}

func TestABodyThatSomebodyUsesStays(t *testing.T) {
	r := newRig(t)
	first, digest := r.submit("hi", "")
	r.end(first)
	second, same := r.submit("hi", "")
	if same != digest {
		t.Fatal("equal prompts have two bodies")
	}
	r.collected("a run that waits has the same", 2*day, 0, digest, true)
	r.clock.Advance(time.Hour)
	r.end(second)
	r.collected("one that ended lately has", day-time.Minute, 0, digest, true)
	own := func(stmt string) {
		t.Helper()
		err := r.db.Write(t.Context(), store.LaneAdmit, func(tx *store.Tx) error { _, err := tx.Exec(stmt, digest); return err })
		if err != nil {
			t.Fatal(err)
		}
	}
	own("INSERT INTO file_owners (project, sha256, size, created_at) VALUES ('p', $1, 1, 0)")
	r.collected("a project's file is the same", 2*day, 0, digest, true)
	own("DELETE FROM file_owners WHERE sha256 = $1")
	r.collected("nobody has it", 2*day, 1, digest, false)
}

// A request stores its body before it commits its run. In between the collector sees only the old run.
func TestABodyOnItsWayIntoARunStays(t *testing.T) {
	r := newRig(t)
	run, digest := r.submit("hi", "")
	r.end(run)
	r.clock.Advance(2 * day)
	f, size, err := r.files.Open(digest)
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, size)
	_, err = io.ReadFull(f, text)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.files.PutBytes(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	r.collected("stored again just now", 0, 0, digest, true)
	r.collected("and never used", day, 1, digest, false)
}

// A repeat of a request whose run is over gives that run back and stores nothing.
func TestARepeatStoresNoBody(t *testing.T) {
	r := newRig(t)
	run, digest := r.submit("hi", "key")
	r.end(run)
	r.collected("over", day, 1, digest, false)
	if again, _ := r.submit("hi", "key"); again.ID != run.ID {
		t.Errorf("the repeat is run %s", again.ID)
	}
	r.collected("after the repeat", day, 0, digest, false)
}

func TestManyBodies(t *testing.T) {
	r := newRig(t)
	const many = 230 // more than two pages
	for i := range many {
		run, _ := r.submit(fmt.Sprint("prompt ", i), "")
		r.end(run)
	}
	waits, digest := r.submit("hi", "")
	r.collected("all that ended", day, many, digest, true)
	r.end(waits)
}
