package release

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"interlock.sh/client"
	"interlock.sh/fault"
)

// shaky is a control plane whose connection breaks once, at the n-th call.
type shaky struct {
	blobs  map[string]bool
	sent   []string // in order
	calls  int
	breaks int
}

var errBroke = errors.New("the connection broke")

func (s *shaky) step() error {
	if s.calls++; s.calls == s.breaks {
		return errBroke
	}
	return nil
}

func (s *shaky) HasBlob(_ context.Context, digest string) (bool, error) {
	return s.blobs[digest], s.step()
}

func (s *shaky) Upload(_ context.Context, path string, _ client.Transfer) (client.Ref, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return client.Ref{}, err
	}
	if err := s.step(); err != nil {
		return client.Ref{}, err
	}
	digest, _, _ := strings.Cut(filepath.Base(path), ".")
	s.blobs[digest] = true
	s.sent = append(s.sent, filepath.Base(path))
	return client.Ref{SHA256: digest, Size: int64(len(text))}, nil
}

func (s *shaky) PutReleaseMetadata(_ context.Context, file string, _ []byte) error {
	if err := s.step(); err != nil {
		return err
	}
	s.sent = append(s.sent, file)
	return nil
}

// A publication that breaks off is repeated until it is through: programs are sent once, and the
// timestamp comes when everything else is there.
func TestUploadGoesOn(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.sign("1.0.0", "linux-amd64", "linux-arm64")
	l.publish()
	if _, err := l.rotate(l.ring()); err != nil {
		t.Fatal(err)
	}
	for at := range 11 { // a whole publication is nine calls
		m := &shaky{blobs: map[string]bool{}, breaks: at}
		said := 0
		upload := func() error {
			return l.with(func(r *Repository) error { return r.Upload(t.Context(), m, func(string) { said++ }) })
		}
		if err := upload(); (err != nil) != (at >= 1 && at <= 9) || err != nil && !errors.Is(err, errBroke) {
			t.Fatalf("a break at call %d: %v", at, err)
		} else if err != nil {
			if err := upload(); err != nil {
				t.Fatal(err)
			}
		}
		if len(m.blobs) != 2 || said != 2 {
			t.Errorf("%d programs were sent, %d times", len(m.blobs), said)
		}
		if tail := m.sent[len(m.sent)-5:]; !slices.Equal(tail, []string{"2.targets.json", "2.snapshot.json", "1.root.json", "2.root.json", "timestamp.json"}) {
			t.Error(tail)
		}
		if first := slices.Index(m.sent, "timestamp.json"); first != len(m.sent)-1 {
			t.Error("a timestamp came before what it names:", m.sent)
		}
	}
}

func TestUploadRefuses(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.sign("1.0.0", "linux-amd64")
	l.publish()
	l.must(func(r *Repository) error {
		programs, _, err := r.Files()
		if err != nil {
			return err
		}
		return os.Remove(filepath.Join(l.dir, targetsDir, programs[0]))
	})
	err := l.with(func(r *Repository) error {
		return r.Upload(t.Context(), &shaky{blobs: map[string]bool{}}, func(string) {})
	})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "upload interlock-linux-amd64") {
		t.Error("a program that is gone:", err)
	}
	other := &shaky{blobs: map[string]bool{}}
	l = newLab(t)
	if err := os.Remove(filepath.Join(l.dir, "metadata/timestamp.json")); err != nil {
		t.Fatal(err)
	}
	err = l.with(func(r *Repository) error { return r.Upload(t.Context(), other, func(string) {}) })
	refusedWith(t, err, fault.Conflict, "nothing is live")
	if len(other.sent) != 0 {
		t.Error(other.sent)
	}
	l.publish()
	l.machine().sees(0)
}
