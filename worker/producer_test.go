package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/tasks"
	"interlock.sh/worker"
)

// shop is the producers' side of a control plane, with one task.
type shop struct {
	*plane
	view    tasks.View
	journal []tasks.Entry
	submits int
	reads   int
	fail    error // the first answer of each kind
}

func (s *shop) once() (err error) {
	s.note(func() { err, s.fail = s.fail, nil })
	return err
}

func (s *shop) SubmitTask(context.Context, tasks.SubmitRequest) (tasks.View, error) {
	s.note(func() { s.submits++ })
	if err := s.once(); err != nil {
		return tasks.View{}, err
	}
	return s.view, nil
}

func (s *shop) Task(context.Context, string) (v tasks.View, err error) {
	if err := s.once(); err != nil {
		return v, err
	}
	s.note(func() { s.reads++; v = s.view })
	return v, nil
}

func (s *shop) CancelTask(context.Context, string, string) (tasks.View, error) { return s.view, nil }

func (s *shop) TaskJournal(_ context.Context, _ string, after int64, _ int) (j tasks.Journal, err error) {
	if err := s.once(); err != nil {
		return j, err
	}
	s.note(func() {
		s.reads++
		j = tasks.Journal{State: s.view.State, Cursor: after}
		for _, e := range s.journal {
			if e.Seq > after {
				j.Entries, j.Cursor = append(j.Entries, e), e.Seq
			}
		}
	})
	return j, nil
}

// write adds an entry to the journal, and tells the watcher when told.
func (s *shop) write(kind tasks.EntryKind, state tasks.State, tell bool) {
	var e tasks.Entry
	s.note(func() {
		e = tasks.Entry{Seq: int64(len(s.journal) + 1), Kind: kind}
		s.journal = append(s.journal, e)
		s.view.State, s.view.Cursor = state, e.Seq
	})
	if tell {
		b, err := json.Marshal(e)
		if err != nil {
			s.t.Fatal(err)
		}
		s.events <- client.Event{ID: "x", Event: string(kind), Data: b}
	}
}

func newShop(t *testing.T) *shop {
	s := &shop{plane: newFake(t), view: tasks.View{ID: "tsk_1"}}
	s.write(tasks.EntrySubmitted, tasks.Queued, false)
	return s
}

func TestWatchGivesEachEntryOnceAndInOrder(t *testing.T) {
	s := newShop(t)
	s.fail = away
	var got []tasks.EntryKind
	done := make(chan error, 1)
	go func() {
		done <- worker.NewProducer(s).Watch(t.Context(), "tsk_1", 0, func(e tasks.Entry) {
			s.note(func() {
				if e.Seq != int64(len(got)+1) {
					t.Errorf("entry %d comes as number %d", e.Seq, len(got)+1)
				}
				got = append(got, e.Kind)
			})
		})
	}()
	s.until("the first entry", func() bool { return len(got) == 1 })
	s.write(tasks.EntryLeased, tasks.Leased, true)
	s.write(tasks.EntryRunning, tasks.Running, false) // its event is lost
	s.write(tasks.EntryLog, tasks.Running, true)
	s.until("what was missed", func() bool { return len(got) == 4 })
	s.write(tasks.EntrySucceeded, tasks.Succeeded, true)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(got) != 5 || got[4] != tasks.EntrySucceeded {
		t.Errorf("got %v", got)
	}
}

func TestAwaitLooksAtOnceWhenToldAndTreatsAnUnknownStateAsLive(t *testing.T) {
	s := newShop(t)
	s.view.State = "pondering"
	var view atomic.Pointer[tasks.View]
	done := make(chan error, 1)
	go func() {
		v, err := worker.NewProducer(s).Await(t.Context(), "tsk_1", 0)
		view.Store(&v)
		done <- err
	}()
	s.until("the first look", func() bool { return s.reads == 1 })
	s.write(tasks.EntryProgress, "pondering", true)
	s.write(tasks.EntryFailed, tasks.Failed, true)
	if err := <-done; err != nil || view.Load().State != tasks.Failed {
		t.Fatalf("got %+v, %v", view.Load(), err)
	}
	if s.reads != 2 {
		t.Errorf("%d looks: progress is no reason to look", s.reads)
	}
}

func TestSubmitIsRepeatedOnlyWithAKey(t *testing.T) {
	s := newShop(t)
	p := worker.NewProducer(s)
	s.fail = away
	if _, err := p.Submit(t.Context(), tasks.SubmitRequest{}); !errors.Is(err, fault.Unavailable) || s.submits != 1 {
		t.Errorf("without a key: %v after %d tries", err, s.submits)
	}
	s.fail = away
	if _, err := p.Submit(t.Context(), tasks.SubmitRequest{IdempotencyKey: "k"}); err != nil || s.submits != 3 {
		t.Errorf("with a key: %v after %d tries", err, s.submits-1)
	}
}

func TestProducerReturnsRefusals(t *testing.T) {
	s := newShop(t)
	p := worker.NewProducer(s)
	s.fail = fault.New(fault.NotFound, "no such task")
	if _, err := p.Await(t.Context(), "tsk_9", 0); !errors.Is(err, fault.NotFound) {
		t.Errorf("Await returned %v", err)
	}
	s.fail = fault.New(fault.NotFound, "no such task")
	if err := p.Watch(t.Context(), "tsk_9", 0, func(tasks.Entry) {}); !errors.Is(err, fault.NotFound) {
		t.Errorf("Watch returned %v", err)
	}
}
