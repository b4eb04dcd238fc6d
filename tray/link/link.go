// Package link is the line between the app in the bar and its window, which is a program of its own: what
// draws with the graphics card costs memory and wakes sixty times a second, so it runs only while somebody
// looks, and when it breaks the bar stays. Pages go down on the window's standard input, news come up on its
// standard output, a line each. The package knows neither menu nor widgets.
package link

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"interlock.sh/tray"
)

// closeIn is how long a window that was asked to close may take.
const closeIn = 3 * time.Second

// Window is the bar's end: at most one window.
type Window struct {
	command func() *exec.Cmd
	news    chan tray.News
	ended   chan error
	done    chan struct{}
	wait    sync.WaitGroup

	mu   sync.Mutex
	in   io.WriteCloser // of the window that runs, else nil
	cmd  *exec.Cmd
	shut bool
}

// New is the bar's end. command makes the program of a window, with nothing started; its standard error is
// the caller's.
func New(command func() *exec.Cmd) *Window {
	return &Window{command: command, news: make(chan tray.News), ended: make(chan error), done: make(chan struct{})}
}

// News are what windows tell.
func (w *Window) News() <-chan tray.News { return w.news }

// Ended gets a value for each window that is gone: nil when it was closed.
func (w *Window) Ended() <-chan error { return w.ended }

// Shown reports whether there is a window.
func (w *Window) Shown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.in != nil
}

// Open shows a page, in the window that is there or in a new one.
func (w *Window) Open(p tray.Page) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shut {
		return errors.New("the app is closing")
	}
	if w.in != nil {
		if _, err := fmt.Fprintln(w.in, p); err == nil {
			return nil
		}
		// It is closing at this moment: another one is opened.
	}
	return w.start(p)
}

func (w *Window) start(p tray.Page) error {
	cmd := w.command()
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start the window: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start the window: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the window: %w", err)
	}
	w.in, w.cmd = in, cmd
	w.wait.Go(func() { w.follow(cmd, in, out) })
	if _, err := fmt.Fprintln(in, p); err != nil {
		return fmt.Errorf("tell the window its page: %w", err)
	}
	return nil
}

// follow passes on what a window tells until it is gone.
func (w *Window) follow(cmd *exec.Cmd, in io.WriteCloser, out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		select {
		case w.news <- tray.News(lines.Text()):
		case <-w.done:
		}
	}
	err := cmd.Wait()
	w.mu.Lock()
	if w.in == in {
		w.in, w.cmd = nil, nil
	}
	w.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("the window ended: %w", err)
	}
	select {
	case w.ended <- err:
	case <-w.done:
	}
}

// Close closes the window, by force when it takes too long, and waits for it. A window that has told that
// everything was removed stays until its owner closes it, since it says what became of it; leave is then true.
func (w *Window) Close(leave bool) {
	w.mu.Lock()
	w.shut = true
	in, cmd := w.in, w.cmd
	w.mu.Unlock()
	close(w.done)
	if in == nil {
		return
	}
	_ = in.Close() // it is what we want, and a window that is gone has closed it
	if leave {
		return
	}
	late := time.AfterFunc(closeIn, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	w.wait.Wait()
}

// Pages reads what the bar wants shown, until the bar is gone, which is its end.
func Pages(ctx context.Context, in io.Reader, show func(tray.Page)) {
	lines := bufio.NewScanner(in)
	for lines.Scan() && ctx.Err() == nil {
		show(tray.ParsePage(lines.Text()))
	}
}

// Tell is the window's way to give the bar news. A bar that is gone needs none.
func Tell(out io.Writer) func(tray.News) {
	var mu sync.Mutex
	return func(n tray.News) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintln(out, strings.ReplaceAll(string(n), "\n", " "))
	}
}
