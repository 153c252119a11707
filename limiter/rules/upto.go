package rules

import (
	"cmp"
	"slices"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// part returns the percentage of the limit that a caller of a tier may use; 100 without up_to.
func (s *spec) part(tier string) int64 {
	percent := int64(100)
	for _, p := range s.UpTo {
		if p.Tier == tier {
			return p.Percent
		}
		if p.Tier == document.OtherTiers {
			percent = p.Percent
		}
	}
	return percent
}

// withLeast returns the numbers r of s with the smallest part.
func (s *spec) withLeast(r algo.Rate) algo.Rate {
	for _, p := range s.UpTo {
		r.Least = max(1, min(cmp.Or(r.Least, r.Of), r.Of*p.Percent/100))
	}
	return r
}

// partOf returns the threshold of a percentage of a limit with up_to. The error is that of limiter.NewLimit.
func partOf(whole *limiter.Limit, percent int64) (*limiter.Limit, error) {
	made := *whole
	made.Rate.Percent = percent
	n := made.Rate.Capacity() * percent / 100
	if made.Rate.Algorithm.HasBurst() {
		made.Rate.Burst = max(1, n) // 0 would be the default
	} else {
		made.Rate.Requests = n
	}
	return limiter.NewLimit(made)
}

// most returns the largest cost that every caller of the limit made can be admitted with, also in an outage. made has the
// numbers of s, or replaces them.
func (s *spec) most(made *limiter.Limit) int64 {
	most := min(made.MaxCost(), made.MaxLocalCost())
	for _, p := range s.UpTo {
		part, err := partOf(made, p.Percent)
		if err != nil || made.Rate.Capacity()*p.Percent < 100 {
			return 0
		}
		most = min(most, part.MaxLocalCost())
	}
	return most
}

// checkParts reports a tier without a part, and a part that admits no request.
func (c *compiler) checkParts(s *spec, made *limiter.Limit, cost int64) (ok bool) {
	if len(s.UpTo) == 0 {
		return true
	}
	path := document.Join(s.Path, "up_to")
	others := slices.ContainsFunc(s.UpTo, func(p document.Part) bool { return p.Tier == document.OtherTiers })
	for _, tier := range append(slices.Clone(c.doc.Tiers), c.doc.DefaultTier) {
		if !others && !slices.ContainsFunc(s.UpTo, func(p document.Part) bool { return p.Tier == tier }) {
			c.doc.Report(path, `got no part for the tier %s, want one for every tier, or for "*"`, tier)
			return false
		}
	}
	if most := s.most(made); most < max(1, cost) {
		c.doc.Report(path, "got a part of %d requests (divided by local_processes), want at least the cost, %d", most, max(1, cost))
		return false
	}
	return true
}
