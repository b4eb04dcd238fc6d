package tui

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/lipgloss"

	"interlock.sh/fleet"
	"interlock.sh/internal/testkit"
	"interlock.sh/tui/look"
	"interlock.sh/tui/tuitest"
)

// screen is what a program wrote; seen is signalled whenever there is more.
type screen struct {
	sync.Mutex
	text bytes.Buffer
	seen chan struct{}
}

func (s *screen) Write(p []byte) (int, error) {
	s.Lock()
	defer s.Unlock()
	select {
	case s.seen <- struct{}{}:
	default:
	}
	return s.text.Write(p)
}

func (s *screen) has(word string) bool {
	s.Lock()
	defer s.Unlock()
	return strings.Contains(s.text.String(), word)
}

func (s *screen) await(t *testing.T, word string) {
	t.Helper()
	deadline := time.After(testkit.Patience)
	for !s.has(word) {
		select {
		case <-s.seen:
		case <-deadline:
			t.Fatalf("%q was never drawn", word)
		}
	}
}

// TestRunEndsWhenItsContextDoes runs the whole loop: hints are followed, and nothing is left behind.
func TestRunEndsWhenItsContextDoes(t *testing.T) {
	b := tuitest.New()
	out := &screen{seen: make(chan struct{}, 1)}
	keys, typist := io.Pipe()
	defer typist.Close()
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- Run(ctx, Options{Backend: b, Renderer: look.Colourless(lipgloss.NewRenderer(out)), Size: Size{W: 100, H: 30}}, keys, out)
	}()
	out.await(t, "studio-mac")
	b.Lock()
	b.Fleet[0].State = fleet.State{Kind: fleet.StateBlocked, Detail: "disk"}
	b.Unlock()
	b.Hints <- "machines" // taken, so the stream is followed
	out.await(t, "blocked: disk")
	leave()
	if err := <-ended; err != nil {
		t.Errorf("the end of its context is an error: %v", err)
	}
}

func TestRunEndsByItsUser(t *testing.T) {
	out := &screen{seen: make(chan struct{}, 1)}
	keys, typist := io.Pipe()
	ended := make(chan error)
	go func() {
		ended <- Run(t.Context(), Options{Backend: tuitest.New(), Renderer: look.Colourless(lipgloss.NewRenderer(out)), Size: Size{W: 100, H: 30}}, keys, out)
	}()
	out.await(t, "studio-mac")
	if _, err := typist.Write([]byte("q")); err != nil {
		t.Fatal(err)
	}
	typist.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
