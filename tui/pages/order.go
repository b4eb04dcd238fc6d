package pages

import (
	"cmp"
	"slices"
	"strings"

	"interlock.sh/fleet"
)

// sortMachines orders machines by a column of the fleet's table. What is equal stands by name, then
// by id, so that rows never swap places by themselves.
func sortMachines(ms []fleet.Machine, column int, desc bool) {
	by := machineOrder(column)
	slices.SortFunc(ms, func(a, b fleet.Machine) int {
		c := by(a, b)
		if desc {
			c = -c
		}
		return cmp.Or(c, strings.Compare(nameOf(a), nameOf(b)), strings.Compare(a.ID, b.ID))
	})
}

func machineOrder(column int) func(a, b fleet.Machine) int {
	words := func(f func(fleet.Machine) string) func(a, b fleet.Machine) int {
		return func(a, b fleet.Machine) int { return strings.Compare(strings.ToLower(f(a)), strings.ToLower(f(b))) }
	}
	figure := func(f func(fleet.Machine) float64) func(a, b fleet.Machine) int {
		return func(a, b fleet.Machine) int { return cmp.Compare(f(a), f(b)) }
	}
	switch fleetColumns[column].Title {
	case "GROUP/ROLE":
		return words(groupRole)
	case "STATE":
		return figure(func(m fleet.Machine) float64 { return float64(rank(m.State)) })
	case "MODEL":
		return words(models)
	case "SLOTS":
		return figure(func(m fleet.Machine) float64 {
			busy, slots, known := load(m)
			if !known {
				return -1
			}
			return float64(busy)*1000 + float64(slots)
		})
	case "TOK/S":
		return figure(func(m fleet.Machine) float64 { return known(speed(m)) })
	case "MEMORY":
		return figure(func(m fleet.Machine) float64 {
			if used := memoryUsed(m.Host); used != nil {
				return float64(*used)
			}
			return -1
		})
	case "VERSION":
		return words(func(m fleet.Machine) string { return m.Version })
	case "SEEN":
		return figure(func(m fleet.Machine) float64 {
			if m.LastSeen == nil {
				return 0
			}
			return -float64(m.LastSeen.UnixMilli()) // the longest silence is the largest
		})
	}
	return words(nameOf)
}

func known(v *float64) float64 {
	if v == nil {
		return -1
	}
	return *v
}
