package updater

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"interlock.sh/fault"
	"interlock.sh/internal/atomicfile"
)

// offer is what all mirrors together offer: the highest valid set, and the others that can serve files.
type offer struct {
	best  *view
	views []*view // best first
	news  []MirrorNews
	rate  func() (bytesPerSecond int64, limited bool) // of downloads; nil is without a limit
}

// fetch asks every mirror and keeps the highest valid set. One mirror that fails, lags or lies does not
// stop the others. The error is what to tell when no mirror has a valid set; the news are there in any
// case, and the state has them.
func (u *Updater) fetch(ctx context.Context, st *state) (*offer, error) {
	now := u.clock.Now()
	st.Tried = now
	if len(u.Origins) == 0 && u.Unread != nil {
		e := fault.Of(u.Unread)
		return nil, fault.Wrap(u.Unread, e.Code, "no control plane to ask for releases is known: %s", e.Message).WithHint("%s", e.Hint)
	}
	if len(u.Origins) == 0 {
		return nil, fault.New(fault.NotFound, "no control plane to ask for releases: this machine is not enrolled").
			WithHint("paste an install line first")
	}
	if err := u.pin(ctx); err != nil {
		return nil, errors.Join(err, u.folder.save(st))
	}
	out := &offer{rate: u.Rate}
	var failures []error
	for _, o := range u.Origins {
		v, err := u.ask(ctx, o, st)
		n := MirrorNews{Name: o.Name, OK: err == nil, At: now}
		if err != nil {
			n.Why = err.Error()
			failures = append(failures, err)
			u.log.WarnContext(ctx, "a mirror is of no use", "mirror", o.Name, "error", err)
		} else {
			out.views = append(out.views, v)
		}
		out.news = append(out.news, n)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	slices.SortStableFunc(out.views, func(a, b *view) int { return b.compare(a) })
	out.withoutLaggards(st)
	st.Mirrors = out.news
	if out.best == nil {
		return nil, errors.Join(noneValid(failures), u.folder.save(st))
	}
	if err := u.folder.accept(out.best); err != nil {
		return nil, err
	}
	u.rememberFirst(ctx, out.best.origin)
	st.Floors, st.Reached = out.best.floors(), now
	return out, u.folder.save(st)
}

// withoutLaggards drops the sets that are older than what was seen, here or at any mirror now. Their
// mirrors may still serve files: a file is known by its hash.
func (o *offer) withoutLaggards(st *state) {
	floors := st.Floors
	for _, v := range o.views {
		err := v.below(floors)
		if err == nil && o.best == nil {
			o.best = v
			floors = v.floors()
			continue
		}
		if err == nil {
			continue
		}
		for i := range o.news {
			if o.news[i].Name == v.origin.Name {
				o.news[i].OK, o.news[i].Why = false, err.Error()
			}
		}
	}
}

// noneValid is the one error of several mirrors.
func noneValid(failures []error) error {
	if len(failures) == 1 {
		return failures[0]
	}
	if len(failures) == 0 {
		return fault.New(fault.Conflict, "every mirror offers older metadata than this machine has seen").
			WithHint("they lag behind, or somebody plays back old copies; nothing of it is used")
	}
	code := fault.Unavailable // a mirror that is away says less than one that is wrong
	for _, err := range failures {
		if c := fault.CodeOf(err); c != fault.Unavailable && c != fault.CaptivePortal {
			code = c
			break
		}
	}
	return fault.Wrap(errors.Join(failures...), code, "no mirror has valid releases: %v", errors.Join(failures...))
}

// ask refreshes one mirror and keeps a newer root that it handed over.
func (u *Updater) ask(ctx context.Context, o Origin, st *state) (*view, error) {
	root, _, err := u.folder.root(u.Root)
	if errors.Is(err, errNoRoot) {
		return nil, unoffered(errNoRoot, "%s offers no signed releases", o.Name)
	}
	if err != nil {
		return nil, err
	}
	v, err := u.folder.refresh(ctx, o, root, u.clock.Now(), u.patience)
	if v != nil && v.set.Root != nil {
		if kept := u.keepRoot(v, st); kept != nil {
			return nil, kept
		}
	}
	return v, err
}

// keepRoot writes a root that the held one vouches for. It is kept even when the rest of the mirror's set
// is of no use: a new root may be what makes the next set valid.
func (u *Updater) keepRoot(v *view, st *state) error {
	version := v.set.Root.Signed.Version
	b, err := os.ReadFile(filepath.Join(v.dir, "root.json"))
	if err != nil {
		return fmt.Errorf("read the mirror's root: %w", err)
	}
	if err := u.folder.keepRoot(b, version); err != nil {
		return err
	}
	if st.Floors == nil {
		st.Floors = map[string]floor{}
	}
	if st.Floors[metadata.ROOT].Version < version {
		st.Floors[metadata.ROOT] = floor{Version: version}
	}
	return nil
}

// rememberFirst keeps the first root of a repository, when a later one was trusted from the start, such as the
// one that is built in: the install line tells by it whether another origin has the same repository. A mirror's
// word is not enough: each root up to the one that is trusted must vouch for the next.
func (u *Updater) rememberFirst(ctx context.Context, o Origin) {
	path := filepath.Join(u.folder.trust(), firstRoot)
	if _, err := os.Lstat(path); err == nil {
		return
	}
	held, root, err := u.folder.root(u.Root)
	var b []byte
	if err == nil {
		b, err = u.folder.firstOf(ctx, o, held, root.Signed.Version)
	}
	if err == nil {
		err = atomicfile.Write(path, b, 0o600)
	}
	if err != nil {
		u.log.WarnContext(ctx, "the first root is not kept; the next pass tries again", "mirror", o.Name, "error", err)
	}
}

// pin trusts the first origin that has a repository, when nothing is trusted yet.
func (u *Updater) pin(ctx context.Context) error {
	_, _, err := u.folder.root(u.Root)
	if !errors.Is(err, errNoRoot) {
		return err
	}
	for _, o := range u.Origins {
		first, err := u.folder.pin(ctx, o, u.Root)
		if err != nil {
			u.log.WarnContext(ctx, "no root of trust can be pinned", "mirror", o.Name, "error", err)
			continue
		}
		if first {
			u.log.InfoContext(ctx, "the root of trust is pinned on first use", "mirror", o.Name)
			return nil
		}
	}
	return nil
}
