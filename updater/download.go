package updater

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
	"interlock.sh/internal/diskspace"
)

// spare is what must stay free beside a download.
const spare = 64 << 20

// download streams a target to a file that is not there yet, bounded by its signed length, and checks its
// signed hash. Mirrors are tried in order. What fails leaves no file.
func (u *Updater) download(ctx context.Context, o *offer, t build.Target, to string) (installed, error) {
	file, err := o.best.file(t.Path())
	if err != nil {
		return installed{}, err
	}
	free, err := u.freeDisk(filepath.Dir(to))
	if err != nil {
		return installed{}, err
	}
	if need := file.Length + spare; free < need {
		return installed{}, fault.New(fault.DiskFull, "%s needs %d MB free, %d MB are", t.Path(), need>>20, free>>20).
			With("needs", need).With("has", free).WithHint("free some space; the next pass tries again")
	}
	if o.rate != nil {
		if n, limited := o.rate(); limited && n <= 0 {
			return installed{}, held()
		}
	}
	var failures []error
	for _, v := range o.views {
		sum, err := u.downloadFrom(ctx, o, v, file, to)
		if err == nil {
			return sum, nil
		}
		if rm := os.Remove(to); rm != nil && !errors.Is(rm, os.ErrNotExist) {
			return installed{}, fmt.Errorf("clear a broken download: %w", rm)
		}
		if ctx.Err() != nil || diskspace.IsFull(err) {
			return installed{}, err
		}
		failures = append(failures, err)
	}
	return installed{}, noneValid(failures)
}

// file is the signed entry of a target.
func (v *view) file(path string) (*metadata.TargetFiles, error) {
	file, err := guarded(func() (*metadata.TargetFiles, error) { return v.updater.GetTargetInfo(path) })
	if err != nil {
		return nil, fault.Wrap(err, fault.NotFound, "the release has no %s", path)
	}
	if len(file.Hashes["sha256"]) != sha256.Size {
		return nil, fault.New(fault.Invalid, "%s has no SHA-256 in the release", path)
	}
	if file.Length <= 0 || file.Length > maxTarget {
		return nil, fault.New(fault.TooLarge, "%s has %d bytes; a program has 1 to %d", path, file.Length, int64(maxTarget))
	}
	return file, nil
}

func (u *Updater) downloadFrom(ctx context.Context, o *offer, v *view, file *metadata.TargetFiles, to string) (sum installed, err error) {
	name := path.Base(file.Path)
	if v.set.Root.Signed.ConsistentSnapshot {
		name = hex.EncodeToString(file.Hashes["sha256"]) + "." + name
	}
	at := v.origin.path("targets", path.Join(path.Dir(file.Path), name))
	ctx, stall := context.WithCancelCause(ctx)
	defer stall(nil)
	slow := fault.New(fault.Unavailable, "%s sends %s too slowly: less than %d kB in %v", v.origin.Name, at, stallBytes>>10, u.patience.stall).
		WithHint("check the network between here and there; the next pass tries again")
	timer := watch(u.patience, func() { stall(slow) }, tooSlow(v.origin, at, u.patience.target))
	defer timer.stop()
	if o.rate != nil {
		timer.pace = (&pace{u, o.rate, 0}).spend(ctx)
	}
	resp, err := v.origin.Client.Open(ctx, http.MethodGet, at)
	if err != nil {
		return installed{}, causeOf(ctx, err)
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	timer.Reader = resp.Body
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return installed{}, fmt.Errorf("make %s: %w", to, err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, h), io.LimitReader(timer, file.Length+1))
	if err != nil {
		return installed{}, causeOf(ctx, fmt.Errorf("download %s: %w", at, err))
	}
	sum = installed{SHA256: hex.EncodeToString(h.Sum(nil)), Length: n}
	want := hex.EncodeToString(file.Hashes["sha256"])
	switch {
	case n > file.Length:
		return installed{}, fault.New(fault.HashMismatch, "%s sends more than the %d bytes of %s that were signed", v.origin.Name, file.Length, file.Path)
	case n < file.Length:
		return installed{}, fault.New(fault.HashMismatch, "%s sent %d bytes of %s; %d were signed", v.origin.Name, n, file.Path, file.Length)
	case sum.SHA256 != want:
		return installed{}, fault.New(fault.HashMismatch, "%s from %s has SHA-256 %s; signed was %s", file.Path, v.origin.Name, sum.SHA256, want)
	}
	if err := out.Chmod(0o755); err != nil {
		return installed{}, fmt.Errorf("make %s a program: %w", to, err)
	}
	if err := out.Sync(); err != nil {
		return installed{}, fmt.Errorf("sync %s: %w", to, err)
	}
	return sum, nil
}
