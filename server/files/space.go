package files

import (
	"fmt"

	"github.com/dustin/go-humanize"

	"interlock.sh/fault"
	"interlock.sh/internal/diskspace"
)

// needSpace refuses, before the first byte, what would not fit beside the floor.
func (s *Store) needSpace(bytes int64) error {
	free, err := s.o.FreeSpace(s.o.Dir)
	if err != nil {
		return fmt.Errorf("blob store: %w", err)
	}
	if bytes <= free-s.o.SpaceFloor {
		return nil
	}
	return s.full(nil, bytes, free)
}

// diskError makes "no space left" the fault that says so; other errors pass.
func (s *Store) diskError(err error, needs int64) error {
	if !diskspace.IsFull(err) {
		return err
	}
	free, _ := s.o.FreeSpace(s.o.Dir) // zero when even that fails
	return s.full(err, needs, free)
}

func (s *Store) full(cause error, needs, free int64) error {
	return fault.Wrap(cause, fault.DiskFull, "the server's disk is full: needs %s and %s kept free, has %s",
		size(needs), size(s.o.SpaceFloor), size(free)).
		With("needs", needs).With("floor", s.o.SpaceFloor).With("has", free).
		WithHint("free space on the disk of the server's data folder, then try again: an upload goes on where it stopped")
}

func size(n int64) string { return humanize.Bytes(uint64(max(n, 0))) }
