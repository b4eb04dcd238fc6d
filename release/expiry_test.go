package release

import (
	"strings"
	"testing"
	"time"

	"interlock.sh/fault"
)

func (l *lab) refresh() (out Published, err error) {
	l.t.Helper()
	err = l.with(func(r *Repository) error {
		out, err = r.Refresh(l.t.Context(), l.ring())
		return err
	})
	return out, err
}

func (l *lab) warnings() string {
	l.t.Helper()
	var s Status
	l.must(func(r *Repository) (err error) {
		s, err = r.Status(l.ring())
		return err
	})
	return strings.Join(s.Warnings, "\n")
}

// A refresh renews what needs it, as late as it is safe: the fewer keys are out, the better.
func TestRefreshRenewsWhatIsTired(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.sign("1.0.0", "linux-amd64")
	l.publish()
	m := l.machine()
	m.sees(1)
	if w := l.warnings(); w != "" {
		t.Error(w)
	}
	l.clock.Advance(10 * day)
	if w := l.warnings(); !strings.Contains(w, "timestamp expires on 2026-03-15; renew it with interlock release refresh") {
		t.Error(w)
	}
	if p, err := l.refresh(); err != nil || p != (Published{Timestamp: 3}) {
		t.Fatalf("%+v %v", p, err)
	}
	m.sees(1)
	l.clock.Advance(15 * day)
	if got, err := m.update(); err == nil {
		t.Fatal("an expired timestamp is good:", got)
	}
	if w := l.warnings(); !strings.Contains(w, "timestamp expired on 2026-03-25: no machine updates any more") {
		t.Error(w)
	}
	if _, err := l.refresh(); err != nil {
		t.Fatal(err)
	}
	m.sees(1)
	l.clock.Advance(40 * day) // 65 of 90
	p, err := l.refresh()
	if err != nil || p != (Published{Targets: 3, Snapshot: 3, Timestamp: 5}) {
		t.Fatalf("%+v %v", p, err)
	}
	m.sees(1)
}

// What is signed and not published must not go live as a side effect.
func TestRefreshPublishesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.sign("1.0.0", "linux-amd64")
	_, err := l.refresh()
	refusedWith(t, err, fault.Conflict, "refreshing would make it live")
	_, err = l.rotate(l.ring())
	refusedWith(t, err, fault.Conflict, "replacing keys would make it live")
	l.machine().sees(0)
}

// Under an expired root nothing is signed in vain, and the root keys bring everything back.
func TestAnExpiredRoot(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.sign("1.0.0", "linux-amd64")
	l.publish()
	m := l.machine()
	l.clock.Advance(731 * day)
	_, err := l.refresh()
	refusedWith(t, err, fault.Invalid, "the root expired on 2028-02-29")
	d, dir := l.dist("1.1.0", "", "interlock-linux-amd64")
	err = l.with(func(r *Repository) error {
		_, err := r.Sign(t.Context(), d, dir, everybody, l.ring())
		return err
	})
	refusedWith(t, err, fault.Invalid, "interlock release keys rotate")
	if w := l.warnings(); !strings.Contains(w, "root expired on 2028-02-29: no machine updates any more; renew it with interlock release keys rotate") {
		t.Error(w)
	}
	if _, err := l.rotate(l.ring()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.refresh(); err != nil {
		t.Fatal(err)
	}
	m.sees(1)
}

func TestTimesAreWholeSecondsInUTC(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.clock.Advance(123456789 * time.Nanosecond)
	if _, err := l.refresh(); err != nil {
		t.Fatal(err)
	}
	l.must(func(r *Repository) error {
		if end := r.timestamp.Signed.Expires; end.Nanosecond() != 0 || end.Location() != time.UTC {
			t.Error(end)
		}
		return nil
	})
}
