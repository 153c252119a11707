package rules

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// maxCompared bounds the work of notes: the number of pairs of rules, and then of limits, that they compare.
const maxCompared = 200_000

// noteStricter notes a limit that can never refuse, because another limit counts all of its requests and is stricter.
func (c *compiler) noteStricter() {
	overridden := map[string]bool{}
	for i := range c.doc.Overrides {
		overridden[c.doc.Overrides[i].Name] = true
	}
	for l := range c.rules.limits() {
		never := func(o limit) bool { return !overridden[o.Name] && c.neverRefuses(l, &o) }
		r := &c.rules.rules[l.rule]
		if r.Shadow {
			continue
		}
	rules:
		for o := range c.covering(r) {
			for _, limits := range o.always(r, l.Tier) {
				c.compared += len(limits)
				if i := slices.IndexFunc(limits, never); i >= 0 {
					c.doc.Note(l.Path, "can never refuse: %s is stricter, and counts all of its requests", limits[i].Path)
					break rules
				}
			}
		}
	}
}

// covering returns the rules that enforce limits and apply to every request to which the rule r applies. It returns no more
// after maxCompared.
func (c *compiler) covering(r *rule) iter.Seq[*rule] {
	return func(yield func(*rule) bool) {
		for _, at := range c.rules.index.match(nil, reading{path: r.pattern.example()}) {
			c.compared++
			o := &c.rules.rules[at]
			if c.compared > maxCompared || (!o.Shadow || r.Shadow) && o.includes(r) && !yield(o) {
				return
			}
		}
	}
}

// always returns the limits, as rule.of does, that apply to every caller who gets the limits of the rule other under the key tier.
func (r *rule) always(other *rule, tier string) [2][]limit {
	limits := r.of(tier)
	if tier == document.Global || tier == document.OtherTiers && r.namesMore(other) {
		limits[0] = nil
	}
	return limits
}

// namesMore reports whether r names a tier that the rule other does not name.
func (r *rule) namesMore(other *rule) bool {
	for tier := range r.tiers {
		if tier != document.Global && other.tiers[tier] == nil {
			return true
		}
	}
	return false
}

// includes reports whether r applies to every request to which the rule other applies.
func (r *rule) includes(other *rule) bool {
	if r.Method != "" && r.Method != other.Method || !r.pattern.contains(other.pattern) || !r.selectsAll(other) {
		return false
	}
	return !slices.ContainsFunc(r.except, func(p pattern) bool {
		return !slices.ContainsFunc(other.except, func(q pattern) bool { return q.contains(p) }) && p.overlaps(other.pattern)
	})
}

// selectsAll reports whether a request with the header fields of the rule other has those of r.
func (r *rule) selectsAll(other *rule) bool {
	return !slices.ContainsFunc(r.Headers, func(f document.Field) bool {
		return !slices.ContainsFunc(other.Headers, func(o document.Field) bool {
			return o.Name == f.Name && !slices.ContainsFunc(o.Values, func(value string) bool { return !matches(f.Values, value) })
		})
	})
}

// overlaps reports whether a path can match both patterns.
func (p *pattern) overlaps(q pattern) bool {
	for i := range min(len(p.segments), len(q.segments)) {
		if a, b := p.segments[i], q.segments[i]; a != b && a != parameter && b != parameter {
			return false
		}
	}
	return len(p.segments) == len(q.segments) || len(p.segments) < len(q.segments) && p.below || len(q.segments) < len(p.segments) && q.below
}

// neverRefuses reports whether the limit stricter refuses each request that l would refuse. Its rule includes that of l.
func (c *compiler) neverRefuses(l, stricter *limit) bool {
	of, by := &c.rules.classes[stricter.class], &c.rules.classes[l.class]
	switch s, o := l.Limit, stricter.Limit; {
	case s == o || s.Mark || o.Mark || s.Count.Of != limiter.CountRequests || o.Count.Of != limiter.CountRequests,
		l.class == stricter.class && s.Rate == o.Rate, // each is as strict as the other
		s.Rate.Calendar.Period != "" || o.Rate.Calendar.Period != "",
		o.Spread != limiter.Spread{} || stricter.AcrossTiers || stricter.spec.Rate.Regions != l.spec.Rate.Regions,
		o.OnError != s.OnError || o.LocalProcesses != s.LocalProcesses,
		len(l.UpTo) > 0, // it refuses a tier earlier
		stricter.cost < l.cost || stricter.Only != "" && stricter.Only != l.Only,
		stricter.byEndpoint() && !l.byEndpoint() || by.byIP && !of.byIP: // a bad credential charges only limits by address
		return false
	}
	if slices.ContainsFunc(of.parts, func(p part) bool {
		return !slices.Contains(by.parts, p) || p.kind == document.PerPath && stricter.rule != l.rule
	}) {
		return false
	}
	most, within := arrival(stricter.Rate), l.Rate
	kind := func(m *limiter.Limit) string { kind, _, _ := strings.Cut(m.Fingerprint(), "/"); return kind }
	if kind(l.Limit) == kind(stricter.Limit) && within.Span() == stricter.Rate.Span() && !within.Algorithm.HasBurst() {
		return within.Requests >= stricter.Rate.Requests
	}
	if within.Algorithm.HasBurst() {
		return most.burst <= float64(within.Capacity()) && most.rate <= float64(within.Requests)/within.Span().Seconds()
	}
	// twice the burst, because a sliding window weighs the requests of the window before
	return 2*most.burst+most.rate*within.Span().Seconds() <= float64(within.Requests)
}

// curve bounds what a limit admits in any time: burst + rate · seconds.
type curve struct{ burst, rate float64 }

func arrival(r algo.Rate) curve {
	made := curve{float64(r.Capacity()), float64(r.Requests) / (float64(r.Span()) / float64(time.Second))}
	if !r.Algorithm.HasBurst() {
		made.burst *= 2
	}
	return made
}
