package rules

import (
	"maps"
	"slices"

	"github.com/weir-limits/weir/limiter"
)

// maxSteps bounds all the work of finding out whether a request can charge too much:
// places of endpoints that are made, measured or visited, and rules that are looked at.
const maxSteps = 500_000

// crowded notes a problem if some request could charge more limits on one subject
// than a store takes in one step. Most documents are settled by an upper bound over
// all tiers and methods; where that is too high, each tier and method is looked at by
// itself, and paths only where its bound is too high.
func (p *parser) crowded() {
	for _, f := range p.families() {
		worst, tier := f.worst(p.rules, &p.steps)
		switch {
		case p.steps < 0:
			p.problems.add("rules", "overlap in too many ways to tell whether a request can charge more than %d limits on one subject", limiter.MaxCharges)
			return
		case worst != nil:
			p.problems.add(worst[limiter.MaxCharges].path,
				"is one of %d limits that one request of a %q caller can charge on one subject (%s), and at most %d fit one write; the first is %s",
				len(worst), tier, f.name, limiter.MaxCharges, worst[0].path)
			return
		}
	}
}

// family is the limits that a store can be asked for in one step: those of the
// subjects of one kind.
type family struct {
	name   string
	needed bool           // not all of it is in another family
	limits map[string]int // how many, by tier key
	parts  []part
}

// part is what a rule has in a family.
type part struct {
	rule   int
	limits map[string][]limit // by tier key
}

// families returns the families of the document, in file order.
func (p *parser) families() (list []*family) {
	byName := map[string]*family{}
	for i := range p.rules.rules {
		r := &p.rules.rules[i]
		for _, tier := range slices.Sorted(maps.Keys(r.limits)) {
			for _, l := range r.limits[tier] {
				for j, name := range p.rules.stepsOf(l) {
					f := byName[name]
					if f == nil {
						f = &family{name: name, limits: map[string]int{}}
						byName[name], list = f, append(list, f)
					}
					// All limits of a client are in its first family already.
					f.needed = f.needed || j == 0
					f.add(i, tier, l)
				}
			}
		}
	}
	return slices.DeleteFunc(list, func(f *family) bool { return !f.needed })
}

func (f *family) add(rule int, tier string, l limit) {
	if n := len(f.parts); n == 0 || f.parts[n-1].rule != rule {
		f.parts = append(f.parts, part{rule, map[string][]limit{}})
	}
	m := f.parts[len(f.parts)-1].limits
	m[tier] = append(m[tier], l)
	f.limits[tier]++
}

// stepsOf returns the families of l. A limit in cells is charged beside others in
// cells. One in shards is charged alone, but where the store is this process's memory.
func (r *Rules) stepsOf(l limit) []string {
	families := slices.Clone(r.classes[l.class].families)
	for i := range families {
		if l.Shadow {
			families[i] = "shadow of " + families[i]
		}
		if l.Spread.Cells > 0 {
			families[i] = "cells of " + families[i]
		}
	}
	return families
}

// worst returns the limits of a request that charges too many of them, and its tier;
// nil if there is none, or if steps are used up.
func (f *family) worst(r *Rules, steps *int) ([]limit, string) {
	all := newCrowd(r, steps)
	for _, m := range f.parts {
		most := 0
		for tier, limits := range m.limits {
			if tier != globalKey {
				most = max(most, len(limits))
			}
		}
		all.weights[m.rule] = most + len(m.limits[globalKey])
	}
	if !all.mayBeTooMany() {
		return nil, ""
	}
	for _, tier := range f.tiers() {
		methods, met := f.of(tier, r, steps)
		for _, method := range methods {
			c := newCrowd(r, steps)
			c.met = met
			for rule, limits := range met {
				if of := r.rules[rule].method; of == "" || of == method {
					c.weights[rule] = len(limits)
				}
			}
			if c.mayBeTooMany() {
				c.follow([]*trie{&c.root}, nil)
			}
			if c.worst != nil || *steps < 0 {
				return c.worst, tier
			}
		}
	}
	return nil, ""
}

// tiers returns the tiers whose callers can meet too many limits, by their number alone.
func (f *family) tiers() (tiers []string) {
	for tier := range f.limits {
		if tier != otherTiers && tier != globalKey && f.limits[tier]+f.limits[otherTiers]+f.limits[globalKey] > limiter.MaxCharges {
			tiers = append(tiers, tier)
		}
	}
	slices.Sort(tiers)
	return append(tiers, otherTiers)
}

// of returns the limits that a caller of a tier can meet, by rule, and the methods that
// differ: any that no rule names meets no more than they.
func (f *family) of(tier string, r *Rules, steps *int) (methods []string, met map[int][]limit) {
	*steps -= len(f.parts)
	met = map[int][]limit{}
	for _, m := range f.parts {
		limits := m.limits[globalKey]
		// A rule that names the tier may do so with limits of another family.
		own := tier
		if _, ok := r.rules[m.rule].limits[tier]; !ok {
			own = otherTiers
		}
		if limits = append(slices.Clone(m.limits[own]), limits...); len(limits) == 0 {
			continue
		}
		met[m.rule] = limits
		if method := r.rules[m.rule].method; method != "" && !slices.Contains(methods, method) {
			methods = append(methods, method)
		}
	}
	if len(methods) == 0 {
		methods = []string{""}
	}
	return methods, met
}

// crowd looks for a request that meets too many limits of a family.
type crowd struct {
	rules   *Rules
	steps   *int            // that remain
	weights map[int]int     // how many limits a rule brings
	met     map[int][]limit // and which
	root    trie            // of these rules
	most    map[*trie][]int // by number of segments that follow, the last for all that are more
	worst   []limit         // nil while there is none
}

func newCrowd(r *Rules, steps *int) *crowd {
	return &crowd{rules: r, steps: steps, weights: map[int]int{}, most: map[*trie][]int{}}
}

// mayBeTooMany reports whether the upper bound is too high.
func (c *crowd) mayBeTooMany() bool {
	total := 0
	for _, n := range c.weights {
		total += n
	}
	*c.steps -= len(c.weights)
	if total <= limiter.MaxCharges {
		return false
	}
	for rule := range c.weights {
		pattern := c.rules.rules[rule].pattern
		*c.steps -= len(pattern.segments)
		c.root.add(pattern, rule)
	}
	c.measure(&c.root)
	return c.bound([]*trie{&c.root}) > limiter.MaxCharges
}

// measure returns how many limits a path can meet at and below t at most, by the number
// of its segments that follow: a path goes on in one literal and in the parameter.
func (c *crowd) measure(t *trie) []int {
	if *c.steps--; *c.steps < 0 {
		return nil
	}
	var param, literal []int
	if t.param != nil {
		param = c.measure(t.param)
	}
	for _, child := range t.literal {
		most := c.measure(child)
		for n := len(literal); n < len(most); n++ {
			literal = append(literal, at(literal, n))
		}
		for n := range literal {
			literal[n] = max(literal[n], at(most, n))
		}
	}
	most := make([]int, 1+max(1, len(param), len(literal)))
	most[0] = c.weight(t.here)
	for n := range most[1:] {
		most[n+1] = at(param, n) + at(literal, n)
	}
	below := c.weight(t.below)
	for n := range most {
		most[n] += below
	}
	c.most[t] = most
	return most
}

// at returns element n, or the last one.
func at(most []int, n int) int {
	if len(most) == 0 {
		return 0
	}
	return most[min(n, len(most)-1)]
}

// bound returns how many limits a path that reaches all nodes can meet there at most.
func (c *crowd) bound(nodes []*trie) int {
	*c.steps -= len(nodes)
	var sums [maxSegments + 2]int
	for _, t := range nodes {
		measured := c.most[t]
		for n := range sums {
			sums[n] += at(measured, n)
		}
	}
	return slices.Max(sums[:])
}

func (c *crowd) weight(rules []int) (sum int) {
	for _, rule := range rules {
		sum += c.weights[rule]
	}
	return sum
}

// follow visits, segment by segment, the nodes that one path can reach at a time, where
// it may meet too many limits. above are the rules that match everything below.
func (c *crowd) follow(nodes []*trie, above []int) {
	if c.worst != nil || *c.steps < 0 {
		return
	}
	for _, t := range nodes {
		above = append(above, t.below...)
	}
	above = slices.Clip(above)
	rules := above
	var params []*trie
	literals := map[string][]*trie{}
	for _, t := range nodes {
		rules = append(rules, t.here...)
		if t.param != nil {
			params = append(params, t.param)
		}
		for segment, child := range t.literal {
			literals[segment] = append(literals[segment], child)
		}
		*c.steps -= len(t.literal)
	}
	*c.steps -= len(rules)
	if c.weight(rules) > limiter.MaxCharges {
		c.judge(rules)
	}
	sure := c.weight(above)
	if len(literals) == 0 && len(params) > 0 { // a literal segment matches parameters too
		literals[parameter] = nil
	}
	for _, segment := range slices.Sorted(maps.Keys(literals)) {
		next := append(slices.Clip(params), literals[segment]...)
		if sure+c.bound(next) > limiter.MaxCharges {
			c.follow(next, above)
		}
	}
}

// judge keeps what a request that matches rules would charge, if it is too much. A
// limit that several rules share counts once.
func (c *crowd) judge(rules []int) {
	var met []limit
	known := map[*limiter.Limit]bool{}
	for _, rule := range slices.Sorted(slices.Values(rules)) {
		for _, l := range c.met[rule] {
			if !known[l.Limit] {
				known[l.Limit], met = true, append(met, l)
			}
		}
		*c.steps -= len(c.met[rule])
	}
	if len(met) > limiter.MaxCharges {
		c.worst = met
	}
}
