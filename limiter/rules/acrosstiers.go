package rules

import (
	"cmp"
	"maps"
	"slices"

	"github.com/weir-limits/weir/limiter/rules/document"
)

// joinTiers finds the same limit in several tiers: limits that differ only in their tier and their numbers. If one of
// them has the field across_tiers, joinTiers makes them thresholds on one count.
func (c *compiler) joinTiers() {
	for _, s := range c.specs {
		if s.Tier != document.Global {
			c.tiers[s.inAnyTier()] = append(c.tiers[s.inAnyTier()], s)
		}
	}
	for _, s := range c.specs {
		same := c.tiers[s.inAnyTier()]
		if len(same) > 0 && same[0] == s && slices.ContainsFunc(same, func(o *spec) bool { return o.AcrossTiers }) {
			c.join(same)
		}
	}
}

// join makes limits keep one count. The largest capacity bounds it.
func (c *compiler) join(same []*spec) {
	tiers, largest, least := map[string]*spec{}, int64(0), same[0].Rate.Capacity()
	for _, s := range same {
		c.checkJoined(s, same[0])
		tiers[s.Tier], largest = cmp.Or(tiers[s.Tier], s), max(largest, s.Rate.Capacity())
		least = min(least, s.Rate.Capacity())
	}
	for _, s := range same {
		s.joined, s.Rate.Of, s.Rate.Least = true, largest, least
		if s.Tier == document.OtherTiers {
			c.checkUnnamed(s, tiers)
		}
	}
}

// checkUnnamed reports a tier that s applies to, because its rule does not name it, although the tier has other numbers.
func (c *compiler) checkUnnamed(s *spec, tiers map[string]*spec) {
	for _, tier := range slices.Sorted(maps.Keys(tiers)) {
		if !c.named[namedTier{s.rule, tier}] {
			c.doc.Report(s.Path, "applies to callers of tier %s too, but %s keeps the same count with other numbers; name the tier %s in this rule",
				tier, tiers[tier].Path, tier)
			return
		}
	}
}

// inAnyTier returns what identifies the limit, without its tier.
func (s *spec) inAnyTier() hashed {
	is := s.is
	is.tier = ""
	return is
}

// count returns what identifies the count of the limit.
func (s *spec) count() hashed {
	if s.joined {
		return s.inAnyTier()
	}
	return s.is
}

// checkJoined reports why a limit cannot keep one count with the limit first, which has another tier.
func (c *compiler) checkJoined(s, first *spec) {
	rate, want := s.Rate, "the same algorithm and the same window or period"
	if rate.Algorithm.HasBurst() {
		rate.Burst, want = first.Rate.Burst, "the same algorithm, requests and window; only the burst may differ"
	} else {
		rate.Requests = first.Rate.Requests
	}
	for _, field := range []struct {
		differs bool
		want    string
	}{
		{s.AcrossTiers != first.AcrossTiers, `the same "across_tiers"`},
		{rate != first.Rate, want},
		{s.Count != first.Count, `the same "count" and "failure_status"`},
		{s.Mark != first.Mark, "the same mode"},
	} {
		if field.differs {
			c.doc.Report(s.Path, "keeps one count with %s (across_tiers), so it must have %s", first.Path, field.want)
			return
		}
	}
}

// noteNewCount notes a limit with a period whose count a caller loses when it changes tier.
func (c *compiler) noteNewCount(s *spec) {
	same := c.tiers[s.inAnyTier()]
	otherTier := func(o *spec) bool { return o.Tier != s.Tier }
	if s.Rate.Calendar.Period == "" || s.AcrossTiers || len(same) == 0 || same[0] != s || !slices.ContainsFunc(same, otherTier) ||
		c.rules.classes[s.class].allTiers() {
		return
	}
	c.doc.Note(s.Path, `a caller that changes tier starts a new count; "across_tiers": true in every tier keeps its usage`)
}
