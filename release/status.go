package release

import (
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"
)

// RoleStatus is one role of what is live.
type RoleStatus struct {
	Role      string    `json:"role"`
	Version   int64     `json:"version"`
	Expires   time.Time `json:"expires"`
	Threshold int       `json:"threshold"`
	Keys      int       `json:"keys"`
}

// Status is the state of a repository.
type Status struct {
	Roles    []RoleStatus `json:"roles"`
	Keys     []KeyInfo    `json:"keyIds"`
	Releases []Released   `json:"releases"` // pending ones included
	Pending  bool         `json:"pending"`  // something is signed that is not live
	Warnings []string     `json:"warnings"`
}

// Status describes the repository; keys, which may be nil, adds the names of key files.
func (r *Repository) Status(keys *Keyring) (Status, error) {
	released, err := r.Released(false)
	if err != nil {
		return Status{}, err
	}
	s := Status{Pending: r.Pending(), Keys: r.Keys(keys), Releases: released, Warnings: []string{}}
	add := func(role string, version int64, expires time.Time, life int) {
		k := r.root().Signed.Roles[role]
		s.Roles = append(s.Roles, RoleStatus{Role: role, Version: version, Expires: expires, Threshold: k.Threshold, Keys: len(k.KeyIDs)})
		left, how := expires.Sub(r.clock.Now()), "interlock release refresh"
		if role == metadata.ROOT {
			how = "interlock release keys rotate"
		}
		switch {
		case left <= 0:
			s.Warnings = append(s.Warnings, role+" expired on "+expires.Format(time.DateOnly)+": no machine updates any more; renew it with "+how)
		case r.tired(expires, life):
			s.Warnings = append(s.Warnings, role+" expires on "+expires.Format(time.DateOnly)+"; renew it with "+how)
		}
	}
	root := r.root().Signed
	add(metadata.ROOT, root.Version, root.Expires, r.settings.RootDays)
	if r.live == nil {
		return s, nil
	}
	add(metadata.TARGETS, r.live.Signed.Version, r.live.Signed.Expires, r.settings.TargetsDays)
	add(metadata.SNAPSHOT, r.snapshot.Signed.Version, r.snapshot.Signed.Expires, r.settings.SnapshotDays)
	add(metadata.TIMESTAMP, r.timestamp.Signed.Version, r.timestamp.Signed.Expires, r.settings.TimestampDays)
	if root.Roles[metadata.ROOT].Threshold == 1 {
		s.Warnings = append(s.Warnings, "one key alone makes a root: whoever gets it rules every machine")
	}
	if !r.current() {
		s.Warnings = append(s.Warnings, "what is live was left half renewed; mend it with interlock release publish")
	}
	return s, nil
}
