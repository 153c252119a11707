package rules

import (
	"maps"
	"slices"
)

// Restarts returns the counts that begin anew where after comes into force in place of before: those
// of limits that both have and count in other items, in file order, such as
// "rules[2].limits.free (search)". A caller then has the whole limit again. before may be nil:
// there were no counts.
func Restarts(before, after *Rules) (restarts []string) {
	if before == nil {
		return nil
	}
	was := map[limitKey]counted{}
	before.eachLimit(func(l limit) { was[limitKey{l.ID, l.Shadow}] = before.counted(l) })
	after.eachLimit(func(l limit) {
		key := limitKey{l.ID, l.Shadow}
		if place, ok := was[key]; ok && place != after.counted(l) {
			restarts = append(restarts, l.path+" ("+l.Name+")")
		}
		delete(was, key) // a limit that several rules share restarts once
	})
	return restarts
}

// counted is where a limit is counted, for a given caller.
type counted struct {
	class  string
	shards int
	cells  bool
}

func (r *Rules) counted(l limit) counted {
	return counted{r.classes[l.class].key, l.Spread.Shards, l.Spread.Cells > 0}
}

// eachLimit calls f with the limits of all rules, in file order.
func (r *Rules) eachLimit(f func(limit)) {
	for i := range r.rules {
		limits := r.rules[i].limits
		for _, tier := range slices.Sorted(maps.Keys(limits)) {
			for _, l := range limits[tier] {
				f(l)
			}
		}
	}
}
