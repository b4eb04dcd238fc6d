package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"interlock.sh/internal/clock"
)

const (
	logFileMax = 5 << 20 // bytes a log file, of which there are two
	tailLines  = 200     // lines kept in memory
	lineMax    = 4 << 10 // bytes of a line that are kept in memory
)

// output takes what a child writes: to a log file of bounded size, its last lines to memory. It never
// makes the child wait for more than one write to disk, and a disk that refuses costs only the file.
type output struct {
	path  string // the older half is path + ".1"
	max   int64
	clock clock.Clock

	mu    sync.Mutex
	file  *os.File
	size  int64
	ring  []string // the oldest at next, once it is full
	next  int
	line  []byte    // begun and not ended, cut at lineMax
	wrote time.Time // when the child last wrote anything
}

func newOutput(path string, max int64, c clock.Clock) *output {
	return &output{path: path, max: max, clock: c}
}

// copyFrom reads until the end of r, which is when the last process of the child's group has closed it, or
// until r's read deadline passes: then the copying goes on later, here or in the next image of the agent.
func (o *output) copyFrom(r io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			o.write(buf[:n])
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err != nil {
			break
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.line) > 0 {
		o.endLine()
	}
	if o.file != nil {
		_ = o.file.Close()
		o.file = nil
	}
}

func (o *output) write(b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wrote = o.clock.Now()
	o.toFile(b)
	for len(b) > 0 {
		part, rest, ended := bytes.Cut(b, []byte{'\n'})
		o.line = append(o.line, part[:min(len(part), lineMax-len(o.line))]...)
		if ended {
			o.endLine()
		}
		b = rest
	}
}

func (o *output) endLine() {
	text := string(bytes.TrimRight(o.line, "\r"))
	o.line = o.line[:0]
	if len(o.ring) < tailLines {
		o.ring = append(o.ring, text)
		return
	}
	o.ring[o.next] = text
	o.next = (o.next + 1) % tailLines
}

// toFile appends, and turns the files over when the current one is full.
func (o *output) toFile(b []byte) {
	if o.file != nil && o.size+int64(len(b)) > o.max {
		_ = o.file.Close()
		o.file = nil
		_ = os.Rename(o.path, o.path+".1")
	}
	if o.file == nil {
		f, err := os.OpenFile(o.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return
		}
		o.file, o.size = f, 0
		if st, err := f.Stat(); err == nil {
			o.size = st.Size()
		}
	}
	n, _ := o.file.Write(b)
	o.size += int64(n)
}

// begin forgets the lines of an earlier process and marks its end in the file.
func (o *output) begin(command string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ring, o.next, o.line, o.wrote = nil, 0, o.line[:0], time.Time{}
	o.toFile(fmt.Appendf(nil, "--- %s %s\n", o.clock.Now().UTC().Format(time.RFC3339), command))
}

// resume goes on with the lines of a process that an earlier image of the agent started.
func (o *output) resume(lines []string, begun string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ring, o.next, o.wrote = append([]string{}, lines[max(0, len(lines)-tailLines):]...), 0, time.Time{}
	o.line = append(o.line[:0], begun[:min(len(begun), lineMax)]...)
}

// begun is the line that has not ended.
func (o *output) begun() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.line)
}

// tail is the last n lines, oldest first.
func (o *output) tail(n int) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := make([]string, 0, len(o.ring))
	lines = append(lines, o.ring[o.next:]...)
	lines = append(lines, o.ring[:o.next]...)
	return lines[max(0, len(lines)-n):]
}

// wroteAt is when the process last wrote something, a line or a part of one: models load with dots.
// Zero when it has not.
func (o *output) wroteAt() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.wrote
}
