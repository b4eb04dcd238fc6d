package serverai

import (
	"context"
	"slices"
	"strings"

	"interlock.sh/fleet"
)

// Served lists the model names that an eligible machine or worker serves now: aliases, and
// group@channel for each channel that points at one.
func (s *Service) Served(ctx context.Context, project string) ([]Model, error) {
	groups, err := s.fleet.Groups(ctx, project)
	if err != nil {
		return nil, err
	}
	eligible, err := s.eligible(ctx, project)
	if err != nil {
		return nil, err
	}
	var out []Model
	for _, g := range groups {
		st, err := s.fleet.Status(ctx, project, g.ID)
		if err != nil {
			return nil, err
		}
		served := map[string]fleet.Deployment{}
		for _, d := range st.Deployments {
			if eligible(d) > 0 {
				served[d.Alias] = d
				out = append(out, Model{Name: d.Alias, Created: d.CreatedAt.Unix(), Group: g.Name})
			}
		}
		for _, c := range st.Channels {
			if d, ok := served[c.Alias]; ok {
				out = append(out, Model{Name: g.Name + "@" + c.Name, Created: d.CreatedAt.Unix(), Group: g.Name})
			}
		}
	}
	workers, err := s.tasks.Workers(ctx, project)
	if err != nil {
		return nil, err
	}
	for _, m := range servedByHardware(workers) {
		// A deployment of that alias goes before it, as it does for a run.
		if !slices.ContainsFunc(out, func(have Model) bool { return have.Name == m.Name }) {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b Model) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Model is a name that can be asked now.
type Model struct {
	Name    string
	Group   string
	Created int64 // seconds since 1970; 0 of a worker's, whose beginning is not known
}
