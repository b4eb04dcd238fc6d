package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"interlock.sh/fault"
	"interlock.sh/internal/atomicfile"
	"interlock.sh/tasks"
)

const (
	recordVersion = 1
	recordExt     = ".json"
	setAsideExt   = ".unreadable"
)

// record is how an attempt ended, as it waits to be reported.
type record struct {
	Version    int                  `json:"version"`
	WorkerID   string               `json:"workerId"`
	Kind       endKind              `json:"kind"`
	Completion *tasks.Completion    `json:"completion,omitempty"`
	Fail       *tasks.FailReport    `json:"fail,omitempty"`
	Unknown    *tasks.UnknownReport `json:"unknown,omitempty"`
	Tail       tail                 `json:"tail"` // of the output stream, to be sent again if need be
}

func newRecord(workerID string, ref tasks.Ref, e ending, left tail) *record {
	r := &record{Version: recordVersion, WorkerID: workerID, Kind: e.kind, Tail: left}
	switch e.kind {
	case endComplete:
		r.Completion = &tasks.Completion{Ref: ref, Result: e.result}
	case endUnknown:
		r.Unknown = &tasks.UnknownReport{Ref: ref, Reason: e.reason}
	default:
		r.Fail = &tasks.FailReport{Ref: ref, Failure: e.failure, Returned: e.returned, Unbegun: e.unbegun}
	}
	r.setStreamBytes(left.Offset + int64(len(left.Text)))
	return r
}

func (r *record) setStreamBytes(n int64) {
	switch {
	case r.Completion != nil:
		r.Completion.StreamBytes = n
	case r.Fail != nil:
		r.Fail.StreamBytes = n
	}
}

func (r *record) ref() tasks.Ref {
	switch {
	case r.Completion != nil:
		return r.Completion.Ref
	case r.Fail != nil:
		return r.Fail.Ref
	case r.Unknown != nil:
		return r.Unknown.Ref
	}
	return tasks.Ref{}
}

// check refuses a record that does not say what its kind needs.
func (r *record) check() error {
	ok := r.Kind == endComplete && r.Completion != nil || r.Kind == endFail && r.Fail != nil || r.Kind == endUnknown && r.Unknown != nil
	switch {
	case r.Version != recordVersion:
		return fmt.Errorf("its version is %d, this program reads %d", r.Version, recordVersion)
	case !ok || r.ref().AttemptID == "" || r.ref().LeaseToken == "":
		return errors.New("it names no attempt or no end")
	}
	return nil
}

// spool is a folder of records, one file an attempt.
type spool struct {
	dir string
	log *slog.Logger
}

func openSpool(dir string, log *slog.Logger) (*spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "the completion spool %s cannot be made: %v", dir, err).WithField("spool")
	}
	return &spool{dir: dir, log: log}, nil
}

// path names a record for its attempt; an id of a strange shape is named by its hash.
func (s *spool) path(attempt string) string {
	name := attempt
	if strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}) || len(name) > 100 {
		sum := sha256.Sum256([]byte(attempt))
		name = hex.EncodeToString(sum[:])
	}
	return filepath.Join(s.dir, name+recordExt)
}

func (s *spool) put(r *record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode spool record: %w", err)
	}
	return atomicfile.Write(s.path(r.ref().AttemptID), b, 0o600)
}

func (s *spool) drop(r *record) error {
	if err := os.Remove(s.path(r.ref().AttemptID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove spool record: %w", err)
	}
	return nil
}

// load reads every record. One that cannot be read is set aside under another name, never deleted: it
// may be the only proof of work that was done.
func (s *spool) load() []*record {
	names, err := recordNames(s.dir)
	if err != nil {
		s.log.Error("read the completion spool", slog.Any("cause", err))
		return nil
	}
	var all []*record
	for _, name := range names {
		path := filepath.Join(s.dir, name)
		r, err := readRecord(path)
		if err == nil {
			all = append(all, r)
			continue
		}
		s.log.Warn("a spool record is unreadable and was set aside", slog.String("file", path+setAsideExt), slog.Any("cause", err))
		if err := os.Rename(path, path+setAsideExt); err != nil {
			s.log.Error("set a spool record aside", slog.Any("cause", err))
		}
	}
	return all
}

func readRecord(path string) (*record, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read spool record: %w", err)
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("decode spool record: %w", err)
	}
	return &r, r.check()
}

func recordNames(dir string) ([]string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list spool: %w", err)
	}
	var names []string
	for _, f := range files {
		if f.Type().IsRegular() && !strings.HasPrefix(f.Name(), ".") && strings.HasSuffix(f.Name(), recordExt) {
			names = append(names, f.Name())
		}
	}
	return names, nil
}

// SpoolStatus is what a completion spool holds.
type SpoolStatus struct {
	Pending  int // ends of attempts that were not answered yet
	SetAside int // records that could not be read
}

// CheckSpool proves that a completion spool can be read and written, and counts what it holds.
func CheckSpool(dir string) (SpoolStatus, error) {
	var st SpoolStatus
	files, err := os.ReadDir(dir)
	if err != nil {
		return st, fault.Wrap(err, fault.NotFound, "the completion spool %s cannot be read: %v", dir, err).WithField("spool").
			WithHint("name the folder that the worker was started with, as a user who may read it")
	}
	for _, f := range files {
		switch {
		case strings.HasSuffix(f.Name(), setAsideExt):
			st.SetAside++
		case f.Type().IsRegular() && !strings.HasPrefix(f.Name(), ".") && strings.HasSuffix(f.Name(), recordExt):
			st.Pending++
		}
	}
	probe, err := os.CreateTemp(dir, ".probe-*")
	if err == nil {
		_, err = probe.WriteString("probe")
		err = errors.Join(err, probe.Sync(), probe.Close(), os.Remove(probe.Name()))
	}
	if err != nil {
		return st, fault.Wrap(err, fault.Conflict, "the completion spool %s cannot be written: %v", dir, err).WithField("spool").
			WithHint("give the worker's user write access and free space there")
	}
	return st, nil
}
