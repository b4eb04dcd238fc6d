package diskspace_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"interlock.sh/internal/diskspace"
)

func TestFreeOfAFolder(t *testing.T) {
	free, err := diskspace.Free(t.TempDir())
	if err != nil || free <= 0 {
		t.Fatalf("Free = %d, %v; want room and no error", free, err)
	}
}

func TestFreeOfNothing(t *testing.T) {
	if _, err := diskspace.Free(t.TempDir() + "/absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Free of an absent folder: %v; want fs.ErrNotExist", err)
	}
}

func TestIsFull(t *testing.T) {
	wrapped := fmt.Errorf("write: %w", &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC})
	for err, want := range map[error]bool{wrapped: true, syscall.EDQUOT: true, syscall.EIO: false} {
		if diskspace.IsFull(err) != want {
			t.Errorf("IsFull(%v) = %v", err, !want)
		}
	}
}
