package rules

import (
	"maps"
	"slices"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// logs notes a problem if the logs that one subject can have hold more entries together
// than a store has room for: all of them are in one item, whatever the endpoint.
func (p *parser) logs() {
	sizes := p.logSizes()
	if len(sizes) == 0 {
		return
	}
	steps := maxSteps
	for _, f := range p.families() {
		for _, sharded := range []bool{false, true} {
			last, tier, sum := f.logs(p.rules, sharded, sizes, &steps)
			switch {
			case steps < 0:
				p.problems.add("rules", "have too many tiers and logs to tell whether those of one subject hold more than %d entries", algo.MaxLogEntries)
				return
			case last != nil:
				p.problems.add(last.path, "is one of the sliding_logs that a %q caller can have on one subject (%s), which hold up to %d entries together, and at most %d are allowed: %d for each request of a limit of this window",
					tier, f.name, sum, algo.MaxLogEntries, algo.MaxLogEntries/algo.MaxLog(last.Rate.Window))
				return
			}
		}
	}
}

// logSizes returns how many entries each log holds at most, as the document or the largest
// of its overrides has it.
func (p *parser) logSizes() map[*limiter.Limit]int64 {
	sizes := map[*limiter.Limit]int64{}
	grow := func(l *limiter.Limit, as *limiter.Limit) {
		rate := as.Rate
		if rate.Algorithm != algo.SlidingLog {
			return
		}
		if n := int64(as.Spread.Shards); n > 0 { // each shard is an item, and has its part
			rate.Requests = (rate.Requests + n - 1) / n
		}
		if m, err := algo.New(rate); err == nil {
			sizes[l] = max(sizes[l], m.(*algo.Log).Most())
		}
	}
	for _, known := range p.known {
		grow(known.made.Limit, known.made.Limit)
	}
	for own, l := range p.rules.overrides.limits {
		grow(own.base, l)
	}
	return sizes
}

// logs returns the first log of a tier's callers by which theirs hold too many entries, and
// how many all of them hold; nil if there is none. Limits in shards are in other items than
// the rest.
func (f *family) logs(r *Rules, sharded bool, sizes map[*limiter.Limit]int64, steps *int) (last *limit, tier string, sum int64) {
	var parts []part
	seen := map[*limiter.Limit]bool{}
	for _, m := range f.parts {
		only := part{m.rule, map[string][]limit{}}
		for tier, limits := range m.limits {
			for _, l := range limits {
				if sizes[l.Limit] == 0 || (l.Spread.Shards > 0) != sharded {
					continue
				}
				only.limits[tier] = append(only.limits[tier], l)
				if !seen[l.Limit] {
					seen[l.Limit], sum = true, sum+sizes[l.Limit]
				}
			}
		}
		if len(only.limits) > 0 {
			parts = append(parts, only)
		}
	}
	if sum <= algo.MaxLogEntries {
		return nil, "", 0
	}
	tiers := map[string]bool{}
	for _, m := range parts {
		for tier := range m.limits {
			tiers[tier] = true
		}
	}
	delete(tiers, globalKey)
	delete(tiers, otherTiers)
	for _, tier := range append(slices.Sorted(maps.Keys(tiers)), otherTiers) {
		last, sum = nil, 0
		clear(seen)
		for _, m := range parts {
			own := tier
			if _, ok := r.rules[m.rule].limits[tier]; !ok {
				own = otherTiers
			}
			for _, l := range slices.Concat(m.limits[own], m.limits[globalKey]) {
				if *steps--; seen[l.Limit] {
					continue
				}
				seen[l.Limit] = true
				if sum += sizes[l.Limit]; sum > algo.MaxLogEntries && last == nil {
					last = &l
				}
			}
			*steps--
		}
		if last != nil || *steps < 0 {
			return last, tier, sum
		}
	}
	return nil, "", 0
}
