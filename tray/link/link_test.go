package link_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"interlock.sh/internal/testkit"
	"interlock.sh/tray"
	"interlock.sh/tray/link"
)

// The test binary plays the window, as the variable says.
const envPlay = "LINK_TEST_WINDOW"

func TestMain(m *testing.M) {
	if play := os.Getenv(envPlay); play != "" {
		os.Exit(window(play))
	}
	os.Exit(m.Run())
}

func window(play string) int {
	tell := link.Tell(os.Stdout)
	in := bufio.NewScanner(os.Stdin)
	switch play {
	case "breaks":
		return 3
	case "stuck":
		signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR1) // else the runtime sees that nothing can go on
		tell("stuck")
		select {}
	case "one page":
		in.Scan()
		tell(tray.News("one " + in.Text()))
		return 0
	}
	for in.Scan() {
		tell(tray.News("page " + in.Text()))
	}
	return 0
}

func bar(t *testing.T, play string) *link.Window {
	t.Helper()
	return link.New(func() *exec.Cmd { return command(play) })
}

func command(play string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envPlay+"="+play)
	cmd.Stderr = os.Stderr
	return cmd
}

func get[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	return testkit.Get(t, "the window", c)
}

func open(t *testing.T, w *link.Window, name tray.PageName) {
	t.Helper()
	if err := w.Open(tray.Page{Name: name}); err != nil {
		t.Fatal(err)
	}
}

func TestOneWindowGetsEachPage(t *testing.T) {
	w := bar(t, "stays")
	if w.Shown() {
		t.Error("there is a window before any was asked for")
	}
	for _, p := range []tray.PageName{tray.RolesPage, tray.AboutPage, tray.UpdatesPage} {
		open(t, w, p)
		if got := get(t, w.News()); got != tray.News("page "+string(p)) {
			t.Errorf("told %q", got)
		}
		if !w.Shown() {
			t.Error("it is not shown")
		}
	}
	w.Close(false)
	if w.Shown() {
		t.Error("it is still there after the app closed")
	}
	if err := w.Open(tray.Page{}); err == nil {
		t.Error("a window was opened by an app that closes")
	}
}

func TestAClosedWindowIsOpenedAnew(t *testing.T) {
	w := bar(t, "one page")
	for range 3 {
		open(t, w, tray.AboutPage)
		if got := get(t, w.News()); got != "one about" {
			t.Errorf("told %q", got)
		}
		if err := get(t, w.Ended()); err != nil {
			t.Errorf("closed: %v", err)
		}
	}
	w.Close(false)
}

func TestAWindowThatBreaksIsReported(t *testing.T) {
	w := bar(t, "breaks")
	_ = w.Open(tray.Page{Name: tray.RolesPage}) // it may be gone before it is told its page
	if err := get(t, w.Ended()); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("ended: %v", err)
	}
	w.Close(false)
	none := link.New(func() *exec.Cmd { return exec.Command("/nonexistent/nightshift") })
	if err := none.Open(tray.Page{}); err == nil || none.Shown() {
		t.Errorf("a program that is not there: %v, shown %v", err, none.Shown())
	}
	none.Close(false)
}

func TestAStuckWindowIsEnded(t *testing.T) {
	var stuck *exec.Cmd
	w := link.New(func() *exec.Cmd { stuck = command("stuck"); return stuck })
	open(t, w, tray.RolesPage)
	get(t, w.News())
	closed := make(chan struct{})
	go func() { w.Close(false); close(closed) }()
	get(t, closed)
	if st, ok := stuck.ProcessState.Sys().(syscall.WaitStatus); !ok || st.Signal() != syscall.SIGKILL {
		t.Errorf("it ended by itself: %s", stuck.ProcessState)
	}
}

func TestTheWindowsEnd(t *testing.T) {
	in, out := io.Pipe()
	go func() {
		fmt.Fprintln(out, tray.Page{Name: tray.AboutPage})
		fmt.Fprintln(out, "nonsense")
		_ = out.Close()
	}()
	var got []tray.PageName
	link.Pages(t.Context(), in, func(p tray.Page) { got = append(got, p.Name) })
	if len(got) != 2 || got[0] != tray.AboutPage || got[1] != tray.RolesPage {
		t.Errorf("pages %q", got)
	}
	var b strings.Builder
	link.Tell(&b)("a\nb")
	if b.String() != "a b\n" {
		t.Errorf("told %q", b.String())
	}
}
