//go:build linux

package e2e

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"interlock.sh/fleet"
)

// dam is a connection to a plane that lets so many bytes to it through and then holds the rest back.
type dam struct {
	base   string
	passed atomic.Int64
	limit  atomic.Int64
}

func newDam(t testing.TB, p *plane) *dam {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d, upstream := &dam{base: "http://" + l.Addr().String()}, strings.TrimPrefix(p.base, "http://")
	d.limit.Store(1 << 62)
	done := make(chan struct{})
	var all sync.WaitGroup
	t.Cleanup(func() {
		close(done)
		_ = l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", upstream)
			if err != nil {
				_ = in.Close()
				continue
			}
			end := func() { _ = in.Close(); _ = out.Close() }
			all.Go(func() { defer end(); _, _ = io.Copy(in, out) })
			all.Go(func() { defer end(); d.pass(out, in, done) })
			all.Go(func() { <-done; end() })
		}
	})
	return d
}

// pass copies until the limit, and then waits for the other side to leave.
func (d *dam) pass(to io.Writer, from io.Reader, done <-chan struct{}) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if d.passed.Add(int64(n)) > d.limit.Load() {
			<-done
			return
		}
		if _, w := to.Write(buf[:n]); w != nil || err != nil {
			return
		}
	}
}

// An upload whose program was killed in the middle goes on where it stopped when the command is repeated.
func TestKilledUploadGoesOn(t *testing.T) {
	t.Parallel()
	const size = 48 << 20
	p := signedIn(t)
	p.ok("models", "register", "--group", "large")
	file := large(t, size)
	d := newDam(t, p)
	d.limit.Store(30 << 20)
	argv := []string{program, "models", "release", "create", "first", "--group", "large", "--file", file, "--license", "test", "--context", "512"}
	p.base = d.base
	env := p.cliEnv([]string{"INTERLOCK_SDK_KEY=" + p.token, "INTERLOCK_PROJECT=" + project})
	up := start(t, "release create", env, append(argv, "--project", project)...)
	until(t, "the upload is held up in the middle", func() error {
		if n := d.passed.Load(); n <= d.limit.Load() {
			return fmt.Errorf("%d bytes went through; it says %s", n, up.out)
		}
		return nil
	})
	up.kill()
	d.limit.Store(1 << 62)
	d.passed.Store(0)
	got := runProgram(t, env, "", append(argv, "--project", project)...)
	if got.code != 0 {
		t.Fatalf("the second try: exit %d, %s%s", got.code, got.out, got.err)
	}
	if sent := d.passed.Load(); sent > size-10<<20 {
		t.Errorf("the second try sent %d of %d bytes: nothing was resumed", sent, size)
	}
	// The bytes are the right ones: the server has made a release of them, which a third try finds.
	if got = runProgram(t, env, "", append(argv, "--project", project)...); got.code != 0 {
		t.Errorf("the third try: exit %d, %s", got.code, got.err)
	}
}

// A download that the control plane's end broke off goes on where it stopped, and is whole.
func TestDownloadOverARestartOfTheServer(t *testing.T) {
	t.Parallel()
	p := newPlane(t).signIn()
	file := large(t, 48<<20)
	g, keys := p.group("large", fleet.NewReleaseRequest{ContextLength: 512, Slots: 1}, file)
	h := newHost(t, realServer(t))
	h.enroll(p, g.ID, fleet.RoleClient, keys[fleet.RoleClient])
	h.start()
	part := filepath.Join(h.home, ".nightshift/cache/blobs/*")
	until(t, "the download has begun", func() error {
		if found, _ := filepath.Glob(part); len(found) == 0 {
			return fmt.Errorf("nothing at %s", part)
		}
		return nil
	})
	p.serve.kill()
	p.restart()
	p.wantReady(g.ID)
	wantAnswer(t, p, "large")
	if c := h.doctor("--deep")["file "+filepath.Base(file)]; !c.OK {
		t.Errorf("doctor: %+v", c)
	}
}
