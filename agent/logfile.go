package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"sync"

	"interlock.sh/agent/enrollment"
)

// logsKept is how many older logs stay beside the newest: agent.log.1 is the youngest of them.
const logsKept = 3

// LogFile is the log of an agent that nobody watches: a file that is set aside as .1 when it grows beyond
// its cap, as the one before it is as .2, up to .3, so that all of them never take more than four times
// that.
type LogFile struct {
	path  string
	limit int64

	mu   sync.Mutex
	file *os.File
	size int64
}

// OpenLogFile opens the log of an enrollment's agent, where `interlock agent logs` looks.
func OpenLogFile(e enrollment.Enrollment) (*LogFile, error) { return newLogFile(LogPath(e), logCap) }

// OpenLog opens a log of the same kind elsewhere, for a program that is no agent.
func OpenLog(path string) (*LogFile, error) { return newLogFile(path, logCap) }

func newLogFile(path string, limit int64) (*LogFile, error) {
	l := &LogFile{path: path, limit: limit}
	return l, l.open()
}

func (l *LogFile) open() error {
	f, err := openLog(l.path)
	if err != nil {
		return err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return errors.Join(fmt.Errorf("open log: %w", err), f.Close())
	}
	l.file, l.size = f, size
	return nil
}

// Write appends one record whole. A record that cannot be written is lost: a full disk is no reason for an
// agent to stop.
func (l *LogFile) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	if l.size > 0 && l.size+int64(len(b)) > l.limit {
		if err := l.turn(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(b)
	l.size += int64(n)
	return n, err
}

// turn begins a new file and keeps the ones before.
func (l *LogFile) turn() error {
	err := l.file.Close()
	l.file = nil
	if err = errors.Join(err, setLogAside(l.path)); err != nil {
		return err
	}
	return l.open()
}

// setLogAside makes room for a new log: each older one moves up by one, and the oldest goes. Renames need no
// space, so that a full disk is no hindrance.
func setLogAside(path string) error {
	name := func(n int) string {
		if n == 0 {
			return path
		}
		return path + "." + strconv.Itoa(n)
	}
	for n := logsKept; n > 0; n-- {
		if err := os.Rename(name(n-1), name(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("set old log aside: %w", err)
		}
	}
	return nil
}

// Beside writes each record to the file and then to w, whose failures are nobody's: a journal that ends or
// starts anew must cost neither a line nor the agent.
func (l *LogFile) Beside(w io.Writer) io.Writer { return beside{l, w} }

type beside struct {
	file *LogFile
	also io.Writer
}

// Write is the file's.
func (b beside) Write(p []byte) (int, error) {
	n, err := b.file.Write(p)
	_, _ = b.also.Write(p)
	return n, err
}

// Close ends the log.
func (l *LogFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}
