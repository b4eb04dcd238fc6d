package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"interlock.sh/fault"
	"interlock.sh/internal/atomicfile"
)

// part is the partial file of a download, with the digest of what it holds. One process has it at a
// time, by a lock on the file.
type part struct {
	path    string
	f       *os.File
	size    int64
	hash    hash.Hash
	synced  int64
	syncing chan error // the running background sync, when there is one
}

// openPart opens or creates the partial and hashes what an earlier try left. More than limit bytes
// cannot be of the same file.
func openPart(ctx context.Context, path string, limit int64) (*part, error) {
	f, err := lockPart(path)
	if err != nil {
		return nil, err
	}
	p := &part{path: path, f: f, hash: sha256.New()}
	st, err := f.Stat()
	if err == nil && st.Size() > limit {
		err = f.Truncate(0)
	} else if err == nil && st.Size() > 0 {
		err = p.rehash(ctx, f)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return p, nil
}

// lockPart opens the file and takes its lock, without waiting.
func lockPart(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			_ = f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, fault.New(fault.Conflict, "another process is downloading %s", path).
					WithHint("wait for it, or stop it")
			}
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		// The holder before may have renamed the file to its final name while we opened it: writing
		// into it then would damage a finished download.
		mine, err1 := f.Stat()
		named, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(mine, named) {
			return f, nil
		}
		_ = f.Close()
	}
}

func (p *part) rehash(ctx context.Context, r io.Reader) error {
	buf := make([]byte, pieceSize)
	for {
		n, err := r.Read(buf)
		p.hash.Write(buf[:n])
		p.size += int64(n)
		switch {
		case err == io.EOF: //nolint:errorlint // bare, as io.Reader says
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}

// append writes b at the end. What was written before an error counts.
func (p *part) append(b []byte) error {
	n, err := p.f.WriteAt(b, p.size)
	p.hash.Write(b[:n])
	p.size += int64(n)
	if err != nil {
		return err
	}
	return p.syncAhead()
}

// syncAhead keeps one background sync going, so that the last one is short.
func (p *part) syncAhead() error {
	if p.size-p.synced < syncEvery {
		return nil
	}
	if p.syncing != nil {
		select {
		case err := <-p.syncing:
			p.syncing = nil
			if err != nil {
				return err
			}
		default:
			return nil
		}
	}
	p.synced = p.size
	done := make(chan error, 1)
	p.syncing = done
	go func() { done <- p.f.Sync() }()
	return nil
}

// sync waits for everything to be on the disk.
func (p *part) sync() error {
	if err := p.settle(); err != nil {
		return err
	}
	return p.f.Sync()
}

func (p *part) settle() error {
	if p.syncing == nil {
		return nil
	}
	err := <-p.syncing
	p.syncing = nil
	return err
}

func (p *part) reset() error {
	if err := p.f.Truncate(0); err != nil {
		return err
	}
	p.size, p.synced = 0, 0
	p.hash.Reset()
	return nil
}

func (p *part) digest() string { return hex.EncodeToString(p.hash.Sum(nil)) }

func (p *part) remove() error { return os.Remove(p.path) }

// publish makes the partial the file dst, durably.
func (p *part) publish(dst string) error {
	if err := p.sync(); err != nil {
		return err
	}
	if err := os.Rename(p.path, dst); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(dst))
}

// close gives the lock back; the bytes stay for a later try.
func (p *part) close() {
	_ = p.settle() // a failed sync of a partial is found by the digest later
	_ = p.f.Close()
}
