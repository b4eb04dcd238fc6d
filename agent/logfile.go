package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"interlock.sh/agent/enrollment"
)

// LogFile is the log of an agent that runs as a service, where nobody reads its output: a file that is set
// aside as .1 when it grows beyond its cap, so that the two together never take more than twice that.
type LogFile struct {
	path  string
	limit int64

	mu   sync.Mutex
	file *os.File
	size int64
}

// OpenLogFile opens the log of an enrollment's agent, where `interlock agent logs` looks.
func OpenLogFile(e enrollment.Enrollment) (*LogFile, error) { return newLogFile(LogPath(e), logCap) }

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

// turn begins a new file and keeps the one before.
func (l *LogFile) turn() error {
	err := errors.Join(l.file.Close(), os.Rename(l.path, l.path+".1"))
	l.file = nil
	if err != nil {
		return fmt.Errorf("set old log aside: %w", err)
	}
	return l.open()
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
