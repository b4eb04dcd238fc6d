package release

import (
	"slices"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"
)

// ProposalView is what a holder has to see before they sign.
type ProposalView struct {
	Version int64           `json:"version"`
	Expires time.Time       `json:"expires"`
	Roles   []ProposedRole  `json:"roles"`
	Signed  []SignatureTale `json:"signed"` // of the root that it follows, and of its own
}

// ProposedRole is one role under the proposed root.
type ProposedRole struct {
	Role      string   `json:"role"`
	Threshold int      `json:"threshold"`
	Before    int      `json:"before,omitempty"` // threshold of the root that it follows
	Stay      []string `json:"stay"`             // ids of keys
	New       []string `json:"new,omitempty"`
	Gone      []string `json:"gone,omitempty"`
}

// SignatureTale says how far a root's threshold is met.
type SignatureTale struct {
	Root      int64    `json:"root"`
	Threshold int      `json:"threshold"`
	By        []string `json:"by"` // ids of keys
	Missing   []string `json:"missing,omitempty"`
}

// Describe tells what a proposal would change, and who has signed it.
func (p Proposal) Describe() ProposalView {
	v := ProposalView{Version: p.next.Signed.Version, Expires: p.next.Signed.Expires}
	for _, role := range metadata.TOP_LEVEL_ROLE_NAMES {
		next := p.next.Signed.Roles[role]
		r := ProposedRole{Role: role, Threshold: next.Threshold}
		var before []string
		if p.old != nil {
			before, r.Before = p.old.Signed.Roles[role].KeyIDs, p.old.Signed.Roles[role].Threshold
		}
		for _, id := range next.KeyIDs {
			if slices.Contains(before, id) {
				r.Stay = append(r.Stay, id)
			} else {
				r.New = append(r.New, id)
			}
		}
		for _, id := range before {
			if !slices.Contains(next.KeyIDs, id) {
				r.Gone = append(r.Gone, id)
			}
		}
		v.Roles = append(v.Roles, r)
	}
	signed := p.signed()
	for _, root := range p.roots() {
		wants := root.Signed.Roles[metadata.ROOT]
		t := SignatureTale{Root: root.Signed.Version, Threshold: wants.Threshold}
		for _, id := range wants.KeyIDs {
			if slices.Contains(signed, id) {
				t.By = append(t.By, id)
			} else {
				t.Missing = append(t.Missing, id)
			}
		}
		v.Signed = append(v.Signed, t)
	}
	return v
}
