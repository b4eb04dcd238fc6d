package release

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"interlock.sh/fault"
	"interlock.sh/internal/atomicfile"
)

// Proposal is a root that nobody accepts yet. As a file it goes to the holders of root keys, who sign it
// where their keys are, and back to the release machine: no two root keys ever meet, and none is ever on a
// machine that is online.
type Proposal struct {
	old  *metadata.Metadata[metadata.RootType] // that it follows; nil when it is the first
	next *metadata.Metadata[metadata.RootType] // with the signatures so far; each one was verified
}

const proposalSchema = 1

// proposalFile is a proposal on disk. It has the old root too: a holder, whose machine knows nothing else,
// sees what would change.
type proposalFile struct {
	Schema int             `json:"schema"`
	Old    json.RawMessage `json:"old,omitempty"`
	Next   json.RawMessage `json:"next"`
}

// ReadProposal reads a proposal and verifies the signatures that it has.
func ReadProposal(path string) (Proposal, error) {
	text, err := readBounded(path, 2*maxMetadata)
	if errors.Is(err, os.ErrNotExist) {
		return Proposal{}, fault.Wrap(err, fault.NotFound, "there is no file %s", path).
			WithHint("the release machine makes it: interlock release keys rotate --out %s", path)
	}
	if err != nil {
		return Proposal{}, fmt.Errorf("read proposal: %w", err)
	}
	p, err := parseProposal(text)
	if err != nil {
		return Proposal{}, fault.Wrap(err, fault.Invalid, "%s is no root that waits for signatures: %v", path, err).
			WithHint("get it from the release machine again")
	}
	if err := p.verify(); err != nil {
		return Proposal{}, fault.Wrap(err, fault.Invalid, "%s cannot be trusted: %v", path, err).
			WithHint("do not sign it; get it from the release machine again")
	}
	return p, nil
}

func parseProposal(text []byte) (p Proposal, err error) {
	var f proposalFile
	if err := json.Unmarshal(text, &f); err != nil {
		return p, err
	}
	if f.Schema != proposalSchema {
		return p, fmt.Errorf("it has schema %d; this program knows %d", f.Schema, proposalSchema)
	}
	if f.Old != nil {
		if p.old, err = metadata.Root().FromBytes(f.Old); err != nil {
			return p, err
		}
	}
	if p.next, err = metadata.Root().FromBytes(f.Next); err != nil {
		return p, err
	}
	return p, nil
}

// verify checks what a proposal must be at every stage.
func (p Proposal) verify() error {
	before := int64(0)
	if p.old != nil {
		before = p.old.Signed.Version
		if err := p.old.VerifyDelegate(metadata.ROOT, p.old); err != nil {
			return fmt.Errorf("the root that it follows: %w", err)
		}
	}
	if p.next.Signed.Version != before+1 {
		return fmt.Errorf("root %d cannot follow root %d", p.next.Signed.Version, before)
	}
	for _, role := range metadata.TOP_LEVEL_ROLE_NAMES {
		if r := p.next.Signed.Roles[role]; r == nil || r.Threshold < 1 || r.Threshold > len(r.KeyIDs) ||
			slices.ContainsFunc(r.KeyIDs, func(id string) bool { return p.next.Signed.Keys[id] == nil }) {
			return fmt.Errorf("nobody could ever sign as %s under it", role)
		}
	}
	for id, key := range p.next.Signed.Keys {
		// Holders compare ids: one that stands for another key than its own would deceive them.
		if got, err := key.ID(); err != nil || got != id {
			return fmt.Errorf("under the id %.12q stands another key", id)
		}
	}
	good := p.signed()
	for _, s := range p.next.Signatures {
		if !slices.Contains(good, s.KeyID) {
			return fmt.Errorf("the signature of key %.12s is not over this root: it was made over another file, or this one was changed since", s.KeyID)
		}
	}
	return nil
}

// signed are the ids of the root keys that signed.
func (p Proposal) signed() []string {
	var out []string
	for _, root := range p.roots() {
		for _, id := range root.Signed.Roles[metadata.ROOT].KeyIDs {
			if !slices.Contains(out, id) && signedBy(root, id, p.next) {
				out = append(out, id)
			}
		}
	}
	return out
}

// signedBy reports whether one root key signed.
func signedBy(root *metadata.Metadata[metadata.RootType], id string, m *metadata.Metadata[metadata.RootType]) bool {
	alone := metadata.Root()
	alone.Signed.Keys = map[string]*metadata.Key{id: root.Signed.Keys[id]}
	alone.Signed.Roles = map[string]*metadata.Role{metadata.ROOT: {KeyIDs: []string{id}, Threshold: 1}}
	return root.Signed.Keys[id] != nil && alone.VerifyDelegate(metadata.ROOT, m) == nil
}

// roots are those whose thresholds have to sign.
func (p Proposal) roots() []*metadata.Metadata[metadata.RootType] {
	if p.old == nil {
		return []*metadata.Metadata[metadata.RootType]{p.next}
	}
	return []*metadata.Metadata[metadata.RootType]{p.old, p.next}
}

// Write writes a proposal; create refuses to replace a file.
func (p Proposal) Write(path string, create bool) error {
	if _, err := os.Lstat(path); create && !errors.Is(err, os.ErrNotExist) {
		return fault.New(fault.Conflict, "%s is there already", path).WithField("out").WithHint("name another file")
	}
	f := proposalFile{Schema: proposalSchema}
	var err error
	if p.old != nil {
		if f.Old, err = p.old.ToBytes(false); err != nil {
			return fmt.Errorf("encode proposal: %w", err)
		}
	}
	if f.Next, err = p.next.ToBytes(false); err != nil {
		return fmt.Errorf("encode proposal: %w", err)
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("encode proposal: %w", err)
	}
	return atomicfile.Write(path, append(text, '\n'), 0o644)
}

// Sign adds the signatures of the root keys within reach that count and have not signed, and names them.
func (p Proposal) Sign(ctx context.Context, keys *Keyring, now time.Time) ([]string, error) {
	if err := p.alive(now); err != nil {
		return nil, err
	}
	var mine []sealedKey
	signed, already := p.signed(), false
	for _, root := range p.roots() {
		for _, k := range keys.have(root.Signed.Roles[metadata.ROOT]) {
			if slices.Contains(signed, k.ID) {
				already = true
			} else if !slices.ContainsFunc(mine, func(m sealedKey) bool { return m.ID == k.ID }) {
				mine = append(mine, k)
			}
		}
	}
	if len(mine) == 0 && already {
		return nil, nil
	}
	if len(mine) == 0 {
		return nil, fault.New(fault.Invalid, "no key that counts for root %d is in %s", p.next.Signed.Version, strings.Join(keys.dirs, ", ")).
			WithField("keys").WithHint("name the folder of your root key: --keys <folder>")
	}
	slices.SortFunc(mine, func(a, b sealedKey) int { return strings.Compare(a.name, b.name) })
	var open []Key
	var names []string
	for _, sealed := range mine {
		key, err := keys.unlock(ctx, sealed)
		if err != nil {
			return nil, err
		}
		open, names = append(open, key), append(names, key.Name)
	}
	return names, addSignatures(p.next, open)
}

// alive refuses a proposal that was left lying until nobody would accept it.
func (p Proposal) alive(now time.Time) error {
	if end := p.next.Signed.Expires; !now.Before(end) {
		return fault.New(fault.Invalid, "root %d, which waits for signatures, ended on %s: no machine would accept it", p.next.Signed.Version, end.Format(time.DateOnly)).
			WithHint("make a new one: interlock release keys rotate --out <file>")
	}
	return nil
}

// Merge takes the signatures that another copy of the same proposal collected.
func (p Proposal) Merge(other Proposal) error {
	if !sameRoot(p.next, other.next) || (p.old == nil) != (other.old == nil) || p.old != nil && !sameRoot(p.old, other.old) {
		return fault.New(fault.Conflict, "the files hold different roots: signatures of one are none of the other").
			WithHint("apply the copies of one file")
	}
	for _, s := range other.next.Signatures {
		if !slices.ContainsFunc(p.next.Signatures, func(have metadata.Signature) bool { return have.KeyID == s.KeyID }) {
			p.next.Signatures = append(p.next.Signatures, s)
		}
	}
	return nil
}

// sameRoot compares what is signed, and not who signed it.
func sameRoot(a, b *metadata.Metadata[metadata.RootType]) bool {
	text := func(m *metadata.Metadata[metadata.RootType]) []byte {
		bare := *m
		bare.Signatures = []metadata.Signature{}
		out, err := bare.ToBytes(false)
		if err != nil {
			return nil
		}
		return out
	}
	one := text(a)
	return one != nil && bytes.Equal(one, text(b))
}

// complete refuses a proposal that too few have signed.
func (p Proposal) complete() error {
	for _, c := range p.Describe().Signed {
		if len(c.By) < c.Threshold {
			return fault.New(fault.Invalid, "root %d wants %d of its %d keys, and %d signed", c.Root, c.Threshold, len(c.By)+len(c.Missing), len(c.By)).
				With("threshold", c.Threshold).With("signed", len(c.By)).
				WithHint("have it signed by more of: %s", strings.Join(c.Missing, ", "))
		}
	}
	for _, root := range p.roots() {
		if err := root.VerifyDelegate(metadata.ROOT, p.next); err != nil {
			return fault.Wrap(err, fault.Invalid, "root %d does not accept root %d: %v", root.Signed.Version, p.next.Signed.Version, err)
		}
	}
	return nil
}
