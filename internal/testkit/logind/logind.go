package logind

import (
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
)

const (
	name     = "org.freedesktop.login1"
	path     = dbus.ObjectPath("/org/freedesktop/login1")
	seatPath = dbus.ObjectPath("/org/freedesktop/login1/seat/")
)

// Lock is an inhibitor that somebody holds.
type Lock struct{ What, Who, Why, Mode string }

// Seat is a place where somebody may sit.
type Seat struct {
	Name  string
	Idle  bool
	Since time.Time // of the hint; the zero time for a seat without sessions
}

// Logind is the login manager on a bus. It is safe for concurrent use.
type Logind struct {
	mu      sync.Mutex
	refused map[string]bool
	locks   []*Lock
	seats   []Seat
	silent  chan struct{} // set: Inhibit does not answer until it closes
	asked   int           // calls of Inhibit that came
	given   int           // locks that were ever given
}

// Serve puts a login manager on the bus until the test's end.
func (b *Bus) Serve(seats ...Seat) *Logind {
	b.t.Helper()
	l := &Logind{refused: map[string]bool{}, seats: seats}
	b.Rejoin(l)
	return l
}

// Rejoin puts the login manager on a bus that was started again.
func (b *Bus) Rejoin(l *Logind) {
	b.t.Helper()
	sent := &sentFDs{held: map[uint32]*os.File{}}
	conn, err := dbus.Connect(b.Address, dbus.WithOutgoingInterceptor(sent.note), dbus.WithSerialGenerator(sent))
	if err != nil {
		b.t.Fatal("join the bus: ", err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	must(b.t, conn.Export(&manager{l, sent}, path, name+".Manager"))
	l.mu.Lock()
	seats := slices.Clone(l.seats)
	l.mu.Unlock()
	for _, s := range seats {
		since := uint64(0)
		if !s.Since.IsZero() {
			since = uint64(s.Since.UnixMicro())
		}
		_, err := prop.Export(conn, seatPath+dbus.ObjectPath(s.Name), prop.Map{name + ".Seat": {
			"IdleHint": {Value: s.Idle, Emit: prop.EmitFalse}, "IdleSinceHint": {Value: since, Emit: prop.EmitFalse},
		}})
		must(b.t, err)
	}
	reply, err := conn.RequestName(name, dbus.NameFlagDoNotQueue)
	if err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		b.t.Fatalf("take the name: %v, %v", reply, err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Refuse says for which locks ("sleep", "idle") access is denied from now on.
func (l *Logind) Refuse(what ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.refused)
	for _, w := range what {
		l.refused[w] = true
	}
}

// Hang makes Inhibit answer nothing until the function is called.
func (l *Logind) Hang() (answer func()) {
	silent := make(chan struct{})
	l.mu.Lock()
	l.silent = silent
	l.mu.Unlock()
	return sync.OnceFunc(func() {
		l.mu.Lock()
		l.silent = nil
		l.mu.Unlock()
		close(silent)
	})
}

// Asked is how often a lock was asked for, and how many were given.
func (l *Logind) Asked() (asked, given int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked, l.given
}

// Locks are the inhibitors that are held now.
func (l *Logind) Locks() []Lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Lock
	for _, k := range l.locks {
		out = append(out, *k)
	}
	return out
}

// manager is the object as the bus sees it.
type manager struct {
	l    *Logind
	sent *sentFDs
}

// Inhibit gives a lock that ends when its file descriptor is closed.
func (m *manager) Inhibit(what, who, why, mode string) (dbus.UnixFD, *dbus.Error) {
	m.l.mu.Lock()
	silent, refused := m.l.silent, m.l.refused[what]
	m.l.asked++
	m.l.mu.Unlock()
	if silent != nil {
		<-silent
	}
	if refused {
		return -1, dbus.NewError("org.freedesktop.DBus.Error.AccessDenied", []any{"Permission denied"})
	}
	r, w, err := os.Pipe()
	if err != nil {
		return -1, dbus.MakeFailedError(err)
	}
	lock := &Lock{what, who, why, mode}
	m.l.mu.Lock()
	m.l.locks = append(m.l.locks, lock)
	m.l.given++
	m.l.mu.Unlock()
	go func() {
		defer r.Close()               //nolint:errcheck // read only
		_, _ = io.Copy(io.Discard, r) // ends when the last holder of the other end is gone
		m.l.mu.Lock()
		defer m.l.mu.Unlock()
		m.l.locks = slices.DeleteFunc(m.l.locks, func(k *Lock) bool { return k == lock })
	}()
	return m.sent.give(w), nil
}

// ListSeats names the seats.
func (m *manager) ListSeats() ([]struct {
	Name string
	Path dbus.ObjectPath
}, *dbus.Error) {
	m.l.mu.Lock()
	defer m.l.mu.Unlock()
	out := make([]struct {
		Name string
		Path dbus.ObjectPath
	}, len(m.l.seats))
	for i, s := range m.l.seats {
		out[i].Name, out[i].Path = s.Name, seatPath+dbus.ObjectPath(s.Name)
	}
	return out, nil
}

// sentFDs closes our end of a lock once the message with it has gone: a serial is given back after its
// message was sent.
type sentFDs struct {
	mu    sync.Mutex
	last  uint32
	given []*os.File
	held  map[uint32]*os.File
}

func (s *sentFDs) give(f *os.File) dbus.UnixFD {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = append(s.given, f)
	return dbus.UnixFD(f.Fd())
}

func (s *sentFDs) note(msg *dbus.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range msg.Body {
		fd, ok := v.(dbus.UnixFD)
		i := slices.IndexFunc(s.given, func(f *os.File) bool { return int(f.Fd()) == int(fd) })
		if ok && i >= 0 {
			s.held[msg.Serial()] = s.given[i]
			s.given = slices.Delete(s.given, i, i+1)
		}
	}
}

// GetSerial is a number that no message had.
func (s *sentFDs) GetSerial() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	return s.last
}

// RetireSerial is called when the message has gone.
func (s *sentFDs) RetireSerial(serial uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.held[serial]; f != nil {
		_ = f.Close()
		delete(s.held, serial)
	}
}
