package release

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"interlock.sh/client"
	"interlock.sh/fault"
)

// Mirror is what Upload needs of a control plane.
type Mirror interface {
	HasBlob(ctx context.Context, digest string) (bool, error)
	Upload(ctx context.Context, path string, t client.Transfer) (client.Ref, error)
	PutReleaseMetadata(ctx context.Context, file string, text []byte) error
}

// Upload brings what is live to a mirror: the programs that it lacks, then the metadata, the timestamp
// last. It may be broken off and repeated: what is there is not sent again, and until the timestamp is
// there machines see what they saw before. said hears of each program that was sent.
func (r *Repository) Upload(ctx context.Context, m Mirror, said func(program string)) error {
	programs, files, err := r.Files()
	if err != nil {
		return err
	}
	for _, name := range programs {
		if err := r.uploadProgram(ctx, m, name, said); err != nil {
			return err
		}
	}
	for _, name := range files {
		text, err := readBounded(r.metadataPath(name), maxMetadata)
		if err != nil {
			return fmt.Errorf("upload metadata: %w", err)
		}
		if err := m.PutReleaseMetadata(ctx, name, text); err != nil {
			return fmt.Errorf("upload %s: %w", name, err)
		}
	}
	return nil
}

func (r *Repository) uploadProgram(ctx context.Context, m Mirror, name string, said func(string)) error {
	digest, file, _ := strings.Cut(filepath.Base(name), ".")
	has, err := m.HasBlob(ctx, digest)
	if err != nil {
		return fmt.Errorf("ask the mirror for %s: %w", file, err)
	}
	if has {
		return nil
	}
	ref, err := m.Upload(ctx, filepath.Join(r.dir, targetsDir, filepath.FromSlash(name)), client.Transfer{})
	if err != nil {
		return fmt.Errorf("upload %s: %w", file, err)
	}
	if ref.SHA256 != digest {
		return fault.New(fault.HashMismatch, "%s in the repository is not what was signed", name).
			WithHint("take the repository folder from its backup").With("expected", digest).With("got", ref.SHA256)
	}
	said(file)
	return nil
}
