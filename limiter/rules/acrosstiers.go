package rules

import (
	"slices"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// joinTiers finds the same limit in several tiers: limits that differ only in their tier and their numbers. If one of
// them has the field across_tiers, joinTiers makes them keep one count.
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

// join makes limits keep one count.
func (c *compiler) join(same []*spec) {
	var tiers []*spec // the first limit of each tier
	known := map[string]bool{}
	for _, s := range same {
		c.checkJoined(s, same[0])
		if !known[s.Tier] {
			known[s.Tier] = true
			tiers = append(tiers, s)
		}
	}
	if n := len(tiers); n > limiter.MaxCharges {
		c.doc.Report(document.Join(same[0].Path, "across_tiers"), "got %d tiers, want at most %d", n, limiter.MaxCharges)
		return
	}
	for _, s := range same {
		for _, o := range tiers {
			if o.Tier == s.Tier {
				continue
			}
			s.Tiers = append(s.Tiers, o.id())
			if s.Tier == document.OtherTiers && !c.named[namedTier{s.rule, o.Tier}] {
				c.doc.Report(s.Path, "applies to callers of tier %s too, but %s keeps the same count with other numbers; name the tier %s in this rule",
					o.Tier, o.Path, o.Tier)
			}
		}
	}
}

// inAnyTier returns what identifies the limit, without its tier.
func (s *spec) inAnyTier() hashed {
	is := s.is
	is.tier = ""
	return is
}

// checkJoined reports why a limit cannot keep one count with the limit first, which has another tier.
func (c *compiler) checkJoined(s, first *spec) {
	rate := s.Rate
	rate.Requests = first.Rate.Requests
	for _, field := range []struct {
		differs bool
		want    string
	}{
		{s.AcrossTiers != first.AcrossTiers, `the same "across_tiers"`},
		{rate != first.Rate, "the same algorithm and the same window or period"},
		{s.Count != first.Count, `the same "count", "failure_status" and "cost_field"`},
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
