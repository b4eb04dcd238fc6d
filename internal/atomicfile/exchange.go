package atomicfile

import (
	"errors"
	"fmt"
	"path/filepath"
)

// Exchange makes two files or folders of one disk change their names at one instant, durably: a folder that
// is replaced by another is never absent.
func Exchange(a, b string) error {
	if err := exchange(a, b); err != nil {
		return fmt.Errorf("exchange %s and %s: %w", a, b, err)
	}
	return errors.Join(SyncDir(filepath.Dir(a)), SyncDir(filepath.Dir(b)))
}
