package serverfleet

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"

	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/ident"
	"interlock.sh/llama"
	"interlock.sh/server/store"
)

const releaseColumns = "id, model_group, name, runtime, files, args, context_length, slots, license, architecture, digest, created_at"

func scanRelease(r store.Scanner) (fleet.Release, error) {
	var v fleet.Release
	var files, args string
	var created int64
	if err := r.Scan(&v.ID, &v.Group, &v.Name, &v.Runtime, &files, &args, &v.ContextLength, &v.Slots, &v.License, &v.Architecture, &v.Digest, &created); err != nil {
		return v, err
	}
	v.CreatedAt = at(created)
	return v, errors.Join(json.Unmarshal([]byte(files), &v.Files), json.Unmarshal([]byte(args), &v.Args))
}

func releasesOf(q store.Querier, group string) ([]fleet.Release, error) {
	rows, err := q.Query("SELECT "+releaseColumns+" FROM releases WHERE model_group = $1 ORDER BY created_at DESC, id DESC", group)
	return store.All(rows, err, scanRelease)
}

// CreateRelease makes an immutable release of files that are stored already. The same name with the
// same content is the release that is there; with other content it is fault.ReleaseConflict.
func (s *Service) CreateRelease(ctx context.Context, project, group string, req fleet.NewReleaseRequest) (fleet.Release, error) {
	if err := req.Normalize(); err != nil {
		return fleet.Release{}, err
	}
	if err := checkArgs(req.Runtime, "args", req.Args); err != nil {
		return fleet.Release{}, err
	}
	g, err := s.Group(ctx, project, group)
	if err != nil {
		return fleet.Release{}, err
	}
	rel := fleet.Release{
		Group: g.ID, Name: req.Name, Runtime: req.Runtime, Files: req.Files, Args: req.Args,
		ContextLength: req.ContextLength, Slots: req.Slots, License: req.License,
	}
	if rel.Architecture, err = s.inspect(ctx, project, req); err != nil {
		return fleet.Release{}, err
	}
	if rel.Digest, err = digest(rel); err != nil {
		return fleet.Release{}, err
	}
	files, err := text(rel.Files)
	if err != nil {
		return fleet.Release{}, err
	}
	args, err := text(rel.Args)
	if err != nil {
		return fleet.Release{}, err
	}
	err = s.db.Write(ctx, store.LaneAdmit, func(tx *store.Tx) error {
		old, err := scanRelease(tx.QueryRow("SELECT "+releaseColumns+" FROM releases WHERE model_group = $1 AND name = $2", g.ID, rel.Name))
		switch {
		case err == nil && old.Digest == rel.Digest:
			rel = old
			return nil
		case err == nil:
			return fault.New(fault.ReleaseConflict, "release %s of group %s exists with other content: it has digest %s, this one %s", rel.Name, g.Name, old.Digest, rel.Digest).
				With("digest", old.Digest).With("offered", rel.Digest).WithHint("a release never changes; use another name")
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		now := tx.Now()
		rel.ID, rel.CreatedAt = ident.New("rel", now), now
		_, err = tx.Exec("INSERT INTO releases ("+releaseColumns+") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
			rel.ID, g.ID, rel.Name, string(rel.Runtime), files, args, rel.ContextLength, rel.Slots, rel.License, rel.Architecture, rel.Digest, now.UnixMilli())
		return err
	})
	return rel, err
}

// checkArgs refuses extra arguments that every agent would refuse: said here, it is said before machines
// have downloaded anything.
func checkArgs(r fleet.Runtime, field string, args []string) error {
	if r != fleet.LlamaCpp {
		return nil
	}
	if err := llama.CheckExtra(args); err != nil {
		return fault.Of(err).WithField(field)
	}
	return nil
}

// inspect checks that the project has stored every file with the size that was named, and that a
// llama.cpp release is made of GGUF files with no shard missing. It returns the architecture.
func (s *Service) inspect(ctx context.Context, project string, req fleet.NewReleaseRequest) (string, error) {
	arch := ""
	for i, f := range req.Files {
		var size int64
		err := s.db.QueryRow(ctx, "SELECT size FROM file_owners WHERE project = $1 AND sha256 = $2", project, f.SHA256).Scan(&size)
		if errors.Is(err, sql.ErrNoRows) {
			return "", fault.New(fault.ChecksumUnknown, "file %s: project %s has stored no bytes with SHA-256 %s", f.Name, project, f.SHA256).
				WithField("files").WithHint("upload it first: interlock models release create uploads what is missing")
		}
		if err != nil {
			return "", err
		}
		if size != f.Size {
			return "", fault.New(fault.HashMismatch, "file %s has %d bytes; the release names %d", f.Name, size, f.Size).WithField("files.size")
		}
		if req.Runtime != fleet.LlamaCpp {
			continue
		}
		h, err := s.header(f)
		if err != nil {
			return "", err
		}
		if h.SplitCount > 0 && h.SplitCount != len(req.Files) {
			return "", fault.New(fault.Invalid, "file %s is shard %d of %d; the release names %d files", f.Name, h.SplitNo+1, h.SplitCount, len(req.Files)).
				WithField("files").WithHint("name every shard, in order")
		}
		if h.SplitCount > 0 && h.SplitNo != i {
			return "", fault.New(fault.Invalid, "file %s is shard %d but stands at place %d", f.Name, h.SplitNo+1, i+1).
				WithField("files").WithHint("name the shards in order")
		}
		if h.SplitCount == 0 && len(req.Files) > 1 {
			return "", fault.New(fault.Invalid, "file %s is a whole model; a release of several files is one split GGUF", f.Name).WithField("files")
		}
		if h.Architecture != "" {
			arch = h.Architecture
		}
	}
	return arch, nil
}

func (s *Service) header(f fleet.File) (llama.Header, error) {
	r, _, err := s.blobs.Open(f.SHA256)
	if err != nil {
		return llama.Header{}, err
	}
	defer r.Close() //nolint:errcheck // read only
	h, err := llama.ReadGGUF(r)
	if err != nil {
		e := fault.Of(err)
		return h, fault.Wrap(err, fault.Invalid, "file %s: %s", f.Name, e.Message).WithField("files").WithHint("%s", e.Hint)
	}
	return h, nil
}

// digest is the SHA-256 over everything that a release fixes, in the canonical JSON of its wire type.
func digest(r fleet.Release) (string, error) {
	r.ID, r.Name, r.Group, r.Digest = "", "", "", ""
	b, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
