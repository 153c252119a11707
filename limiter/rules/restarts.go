package rules

// Moved returns the counts that restart when the rules after replace the rules before, in file order, such as
// "rules[2].limits.free (search)", and those that begin at zero. A count restarts if both documents have the limit, but
// count it in different items, or if a limit keeps its place and name, but its field "per" changes. After a restart the
// caller has the whole limit again. A count begins if its limit is in after and not in before, because it is new, or has
// a new name, tier, endpoint or mode. before may be nil if there were no rules.
//
// Moved compares documents that the same version of Weir compiled. A new version of Weir can count the same document in
// other items, which also restarts counts. The CHANGELOG lists such versions.
func Moved(before, after *Rules) (restarts, begins []string) {
	if before == nil {
		return nil, nil
	}
	was, here := map[limitKey]counted{}, map[place]limitKey{}
	for l := range before.limits() {
		key := limitKey{id: l.ID, shadow: l.Shadow}
		was[key], here[before.placeOf(l)] = before.counted(l), key
	}
	reported := map[limitKey]bool{} // a limit of several rules is reported once
	for l := range after.limits() {
		key := limitKey{id: l.ID, shadow: l.Shadow}
		item, same := was[key]
		if reported[key] || same && item == after.counted(l) {
			continue
		}
		reported[key] = true
		if _, replaces := here[after.placeOf(l)]; same || replaces {
			restarts = append(restarts, l.Path+" ("+l.Name+")")
		} else {
			begins = append(begins, l.Path+" ("+l.Name+")")
		}
	}
	return restarts, begins
}

// place identifies a limit in a document by its endpoint, method, tier, name and shadow mode. A limit
// keeps its place if its field "per" changes.
type place struct {
	endpoint, method, tier, name string
	shadow                       bool
}

func (r *Rules) placeOf(l *limit) place {
	rule := &r.rules[l.rule]
	return place{rule.Endpoint, rule.Method, l.Tier, l.Name, l.Shadow}
}

// counted identifies the item that counts a limit for a given caller.
type counted struct {
	class  string
	shards int
}

func (r *Rules) counted(l *limit) counted {
	return counted{r.classes[l.class].key, l.Spread.Shards}
}
