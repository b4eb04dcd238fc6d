package store

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"interlock.sh/internal/clock"
)

// machine is a clock whose wall and monotonic parts are moved apart.
type machine struct {
	wall time.Time
	mono time.Duration
}

func (m *machine) pass(d time.Duration) { m.wall, m.mono = m.wall.Add(d), m.mono+d }
func (m *machine) jump(d time.Duration) { m.wall = m.wall.Add(d) }

func (m *machine) clock() *storeClock {
	return &storeClock{
		sample: func() (time.Time, time.Duration) { return m.wall, m.mono },
		jumped: func(time.Duration) {}, shown: m.wall, wall: m.wall, mono: m.mono, epoch: 1,
	}
}

func TestTheClockShowsAJump(t *testing.T) {
	for name, c := range map[string]struct {
		by    time.Duration
		epoch uint64
		shows time.Duration // after the jump and a second
	}{
		"none":           {0, 1, time.Second},
		"small forward":  {5 * time.Second, 1, 6 * time.Second},
		"small back":     {-5 * time.Second, 1, 900 * time.Millisecond},
		"sleep":          {time.Hour, 2, time.Hour + time.Second},
		"set back":       {-time.Hour, 2, 900 * time.Millisecond},
		"just too much":  {5*time.Second + 1, 2, 6 * time.Second},
		"just too much-": {-5*time.Second - 1, 2, 900 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{wall: start}
			s := m.clock()
			m.pass(time.Second)
			m.jump(c.by)
			now, epoch := s.read()
			if epoch != c.epoch || now.Sub(start) != c.shows {
				t.Errorf("epoch %d, shows +%v; want %d, +%v", epoch, now.Sub(start), c.epoch, c.shows)
			}
			if _, again := s.read(); again != epoch {
				t.Error("one jump was counted twice")
			}
		})
	}
}

func TestAClockThatIsAheadComesBackSlowly(t *testing.T) {
	m := &machine{wall: start}
	s := m.clock()
	m.jump(-time.Hour)
	for range 60 * 60 * 10 {
		m.pass(time.Second)
		s.read()
	}
	if now, _ := s.read(); !now.Equal(m.wall) {
		t.Errorf("ten hours later it shows %v, the wall %v", now, m.wall)
	}
}

func TestTheClockNeverGoesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{wall: start}
		s := m.clock()
		last, _ := s.read()
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			m.pass(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "pass")))
			m.jump(time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "jump")))
			now, _ := s.read()
			if now.Before(last) {
				t.Fatalf("%v after %v", now, last)
			}
			last = now
		}
	})
}

func TestTheClockNeverGoesBackOverARestart(t *testing.T) {
	dir := t.TempDir()
	c := clock.NewFake(start)
	db, err := Open(context.Background(), Options{Dir: dir, Clock: c, Migrations: schema()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(5) { // not every one of these writes the mark
		mustWrite(t, db, insert(i))
		c.Advance(100 * time.Millisecond)
	}
	var stored int64
	if err := db.QueryRow(context.Background(), "SELECT max(at) FROM items").Scan(&stored); err != nil {
		t.Fatal(err)
	}
	// As after a kill, the mark in the file is that of the last commit that wrote it.
	var mark int64
	if err := db.QueryRow(context.Background(), "SELECT value FROM meta").Scan(&mark); err != nil {
		t.Fatal(err)
	}
	if mark < stored || mark > c.Now().Add(markStep).UnixMilli() {
		t.Errorf("the mark %d, the newest stored time %d", mark, stored)
	}
	closeDB(t, db)

	db = open(t, dir, clock.NewFake(start.Add(-time.Hour)))
	if now := db.Now(); !now.Equal(c.Now()) {
		t.Errorf("after an orderly restart it shows %v, want %v", now, c.Now())
	}
	if e := db.Epoch(); e != 1 {
		t.Errorf("epoch %d", e)
	}
	mustWrite(t, db, func(tx *Tx) error {
		if tx.Now().Before(c.Now()) || tx.Epoch() != 1 {
			t.Errorf("an operation sees %v, epoch %d", tx.Now(), tx.Epoch())
		}
		return nil
	})
}

func TestAFailedCommitDoesNotMoveTheMark(t *testing.T) {
	c := clock.NewFake(start)
	db := open(t, t.TempDir(), c)
	mustWrite(t, db, insert(1))
	c.Advance(time.Minute)
	err := db.Write(context.Background(), LaneAdmit, func(tx *Tx) error {
		if _, err := tx.Exec("PRAGMA defer_foreign_keys = ON"); err != nil {
			return err
		}
		_, err := tx.Exec("INSERT INTO parts (id, item) VALUES (1, 4711)")
		return err
	})
	if err == nil {
		t.Fatal("the commit did not fail")
	}
	mustWrite(t, db, insert(2))
	var mark int64
	if err := db.QueryRow(context.Background(), "SELECT value FROM meta").Scan(&mark); err != nil {
		t.Fatal(err)
	}
	if mark < c.Now().UnixMilli() {
		t.Errorf("a stored time is beyond the mark by %d ms", c.Now().UnixMilli()-mark)
	}
}
