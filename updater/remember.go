package updater

import (
	"os"
	"path/filepath"

	"github.com/theupdateframework/go-tuf/v2/metadata"
)

// remembered is what other files still tell of a state that is damaged or gone: from the metadata that was
// accepted, below which versions nothing is taken, and from the newest report, which version failed here. What is
// under way comes back from the links, see recall.
func (f folder) remembered() state {
	st := state{Schema: stateSchema, Floors: f.accepting()}
	if r := LastReport(string(f)); r != nil && r.State == Reverted && r.Version != "" {
		st.quarantine(r.Version, r.Why)
	}
	return st
}

// accepting are the floors that the accepted metadata gives. A file that cannot be read gives none. The keys are
// those of the root that it was accepted with: under newer ones the numbers mean nothing.
func (f folder) accepting() map[string]floor {
	out := map[string]floor{}
	if _, newest, err := f.root(nil); err == nil {
		out[metadata.ROOT] = floor{Version: newest.Signed.Version}
	}
	read := func(role string) []byte {
		b, _ := os.ReadFile(filepath.Join(f.accepted(), role+".json")) // what is not there cannot be parsed either
		return b
	}
	root, err := parseRoot(read(metadata.ROOT))
	if err != nil {
		return out
	}
	for _, r := range roles {
		m, err := guarded(func() (any, error) { return parse(r.name, read(r.name)) })
		if err != nil {
			continue
		}
		var version int64
		switch m := m.(type) {
		case *metadata.Metadata[metadata.TimestampType]:
			version = m.Signed.Version
		case *metadata.Metadata[metadata.SnapshotType]:
			version = m.Signed.Version
		case *metadata.Metadata[metadata.TargetsType]:
			version = m.Signed.Version
		}
		out[r.name] = floor{version, keysOf(root, r.keys)}
	}
	return out
}
