package measure

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"interlock.sh/bench/report"
	"interlock.sh/bench/rig"
	"interlock.sh/client"
)

// minTransfer is the least part of the yardstick's speed.
const minTransfer = 0.7

// Transfer uploads and downloads a file of so many bytes through the real server, and in between does
// with the same file what dd with one fsync and openssl do.
func Transfer(ctx context.Context, p *rig.Plane, dir string, size int64, rounds int) ([]report.Row, error) {
	file := filepath.Join(dir, "blob")
	if err := fill(file, size); err != nil {
		return nil, err
	}
	defer os.Remove(file)
	var up, down ratios
	for n := range rounds {
		if err := change(file, n); err != nil { // bytes that the server has would not be sent
			return nil, err
		}
		plain, err := yardstick(ctx, file)
		if err != nil {
			return nil, err
		}
		var ref client.Ref
		took, err := timed(func() (err error) { ref, err = p.Owner.Upload(ctx, file, client.Transfer{}); return err })
		if err != nil {
			return nil, err
		}
		up.add(plain, took)
		if plain, err = yardstick(ctx, file); err != nil {
			return nil, err
		}
		to := file + ".down"
		took, err = timed(func() error { return p.Owner.Download(ctx, ref, to, client.Transfer{}) })
		if err != nil {
			return nil, err
		}
		down.add(plain, took)
		if err := os.Remove(to); err != nil {
			return nil, err
		}
	}
	return []report.Row{up.row("upload", size), down.row("download", size)}, nil
}

// ratios compares times that stand for the same bytes.
type ratios struct{ plain, ours []time.Duration }

func (r *ratios) add(plain, ours time.Duration) {
	r.plain, r.ours = append(r.plain, plain), append(r.ours, ours)
}

func (r *ratios) row(what string, size int64) report.Row {
	plain, ours := median(r.plain), median(r.ours)
	ratio := plain.Seconds() / ours.Seconds()
	return report.Row{
		What:     fmt.Sprintf("%s of %d MB ÷ (dd conv=fsync + openssl)", what, size/1e6),
		Measured: fmt.Sprintf("%.2f (%.2f s, yardstick %.2f s)", ratio, ours.Seconds(), plain.Seconds()),
		Bound:    fmt.Sprintf("≥ %.1f of its speed", minTransfer), OK: ratio >= minTransfer,
	}
}

func fill(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("make the file to transfer: %w", err)
	}
	defer f.Close()
	if _, err := io.CopyN(f, rand.Reader, size); err != nil {
		return fmt.Errorf("make the file to transfer: %w", err)
	}
	return f.Sync()
}

// change makes the file another one.
func change(path string, n int) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("change the file to transfer: %w", err)
	}
	defer f.Close()
	if _, err := f.WriteAt(binary.BigEndian.AppendUint64(nil, uint64(n)), 0); err != nil {
		return fmt.Errorf("change the file to transfer: %w", err)
	}
	return f.Sync()
}

// yardstick copies the file and syncs the copy, and then hashes the file.
func yardstick(ctx context.Context, file string) (time.Duration, error) {
	copied := file + ".dd"
	defer os.Remove(copied)
	return timed(func() error {
		for _, c := range [][]string{
			{"dd", "if=" + file, "of=" + copied, "bs=1M", "conv=fsync"},
			{"openssl", "dgst", "-sha256", file},
		} {
			if out, err := exec.CommandContext(ctx, c[0], c[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("%v: %w\n%s", c, err, out)
			}
		}
		return nil
	})
}

func timed(f func() error) (time.Duration, error) {
	start := time.Now()
	err := f()
	return time.Since(start), err
}
