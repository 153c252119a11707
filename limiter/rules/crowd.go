package rules

import (
	"slices"

	"github.com/weir-limits/weir/limiter"
)

// maxFollowed bounds the search for a request that meets too many limits.
const maxFollowed = 100_000

// crowded notes a problem if some request could charge more limits on one subject
// than a store takes in one step. It asks for each family of subjects, method and
// tier by itself, and looks at paths only where there are enough limits at all.
func (p *parser) crowded() {
	tiers := append(p.rules.Tiers(), otherTiers)
	for family, limits := range p.families() {
		if limits <= limiter.MaxCharges {
			continue
		}
		for _, method := range append([]string{""}, methods...) {
			for _, tier := range tiers {
				c := crowd{rules: p.rules, family: family, method: method, tier: tier}
				c.follow([]*trie{&p.rules.index}, nil)
				if c.followed > maxFollowed {
					p.problems.add("rules", "overlap in too many ways to tell whether a request can charge more than %d limits on one subject", limiter.MaxCharges)
					return
				}
				if c.worst != nil {
					p.problems.add(c.worst[limiter.MaxCharges].path,
						"is one of %d limits that one request of a %q caller can charge on one subject (%s), and at most %d fit one write; the first is %s",
						len(c.worst), tier, family, limiter.MaxCharges, c.worst[0].path)
					return
				}
			}
		}
	}
}

// families returns how many limits the subjects of each family can hold.
func (p *parser) families() map[string]int {
	limits := map[string]int{}
	for i := range p.rules.rules {
		for _, list := range p.rules.rules[i].limits {
			for _, l := range list {
				for _, family := range p.rules.stepsOf(l) {
					limits[family]++
				}
			}
		}
	}
	return limits
}

// stepsOf returns the families of subjects with whose other limits l is charged in one
// step of the store.
func (r *Rules) stepsOf(l limit) (families []string) {
	if l.Spread.Shards > 0 || l.Spread.Cells > 0 {
		return nil
	}
	for _, family := range r.classes[l.class].families() {
		if l.Shadow {
			family = "shadow of " + family
		}
		families = append(families, family)
	}
	return families
}

// crowd looks for a request by a caller of one tier that meets more limits of one
// family of subjects than fit.
type crowd struct {
	rules        *Rules
	family       string
	method, tier string
	followed     int
	worst        []limit // nil while there is none
}

// limits returns the limits of a rule that count.
func (c *crowd) limits(rule int) (met []limit) {
	r := &c.rules.rules[rule]
	if r.method != "" && r.method != c.method {
		return nil
	}
	own, ok := r.limits[c.tier]
	if !ok {
		own = r.limits[otherTiers]
	}
	for _, list := range [][]limit{own, r.limits[globalKey]} {
		for _, l := range list {
			if slices.Contains(c.rules.stepsOf(l), c.family) {
				met = append(met, l)
			}
		}
	}
	return met
}

// follow visits, segment by segment, the nodes that one path can reach at a time.
// above are the rules that match everything below.
func (c *crowd) follow(nodes []*trie, above []int) {
	c.followed++
	if c.worst != nil || c.followed > maxFollowed {
		return
	}
	for _, n := range nodes {
		above = append(above, n.below...)
	}
	rules := slices.Clone(above)
	literals := map[string]bool{}
	var params []*trie
	for _, n := range nodes {
		rules = append(rules, n.here...)
		for segment := range n.literal {
			literals[segment] = true
		}
		if n.param != nil {
			params = append(params, n.param)
		}
	}
	c.judge(rules)
	if len(params) > 0 {
		c.follow(params, slices.Clip(above))
	}
	for segment := range literals {
		next := slices.Clone(params)
		for _, n := range nodes {
			if child := n.literal[segment]; child != nil {
				next = append(next, child)
			}
		}
		c.follow(next, slices.Clip(above))
	}
}

// judge keeps what a request that matches rules would charge, if it is too much. A
// limit that several rules share counts once.
func (c *crowd) judge(rules []int) {
	var met []limit
	slices.Sort(rules)
	for _, rule := range rules {
		for _, l := range c.limits(rule) {
			if !slices.ContainsFunc(met, func(m limit) bool { return m.Limit == l.Limit }) {
				met = append(met, l)
			}
		}
	}
	if len(met) > limiter.MaxCharges {
		c.worst = met
	}
}
