package rules

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// Items describes the items of a store that keeps all limits of a subject in one item. dynamostore.Items implements it for
// DynamoDB. The results MUST depend only on the arguments, so that all environments of one version of the rules count a
// caller in the same items.
type Items interface {
	// Misfit returns why limits do not fit one item, such as "take up to 1078 bytes, want at most 1024". It returns "" if they
	// fit. Each limit has one of several rates.
	Misfit(limits [][]algo.Rate) string
}

// unbounded is the Items of a store whose items have no bound.
type unbounded struct{}

func (unbounded) Misfit([][]algo.Rate) string { return "" }

// place decides which items contain which limits. If all limits of every caller fit one item, this item
// contains the limits by caller and endpoint too. If they do not fit, each pair of caller and endpoint
// has its own item. If the limits do not fit these items either, place reports a mistake.
func (c *compiler) place() {
	if c.doc.Mistakes() > 0 || c.misfit() == nil {
		return
	}
	c.assign(true)
	if m := c.misfit(); m != nil {
		c.report(m)
	}
	c.doc.Note("rules", "the limits of one caller do not fit one item, so the limits by endpoint use one item for each caller and endpoint")
}

// assign sets the class of each limit. If split is true, each endpoint of a caller has its own item.
func (c *compiler) assign(split bool) {
	c.rules.split, c.rules.classes = split, nil
	clear(c.classes)
	for _, s := range c.specs {
		r := &c.rules.rules[s.rule]
		s.class = c.class(newClass(s.Per, r.Method, r.pattern, split))
	}
}

// item identifies the limits that one item contains for a given caller. A limit by client occurs in
// three items: those of a user, an API key and an address.
type item struct {
	family string // an element of class.families
	shadow bool
}

// items returns the limits that each item contains, and the items in the order of their first limits.
// The limits are in file order.
func (c *compiler) items() (limits map[item][]*spec, order []item) {
	limits = map[item][]*spec{}
	for _, s := range c.specs {
		for _, family := range c.rules.classes[s.class].families {
			stored := item{family, c.rules.rules[s.rule].Shadow}
			if limits[stored] == nil {
				order = append(order, stored)
			}
			limits[stored] = append(limits[stored], s)
		}
	}
	return limits, order
}

// rates returns the rates that a limit can have in an item. Each shard of a limit is an item with a part of its instants.
func (s *spec) rates() []algo.Rate {
	list := append([]algo.Rate{s.Rate}, s.own...)
	for i, r := range list {
		if shards := int64(s.Spread.Shards); shards > 1 && r.Algorithm.Logs() {
			list[i].Requests = (r.Requests + shards - 1) / shards
		}
	}
	return list
}

func (c *compiler) misfit() *misfit {
	limits, order := c.items()
	for _, item := range order {
		if c.overflow(limits[item], item, "") == nil { // if the limits of all tiers fit together, the limits of each tier fit
			continue
		}
		for tier, met := range c.byTier(limits[item]) {
			if m := c.overflow(met, item, tier); m != nil {
				return m
			}
		}
	}
	return nil
}

// byTier returns those limits of an item that it contains for a caller of each tier. The next tier overwrites the slice.
func (c *compiler) byTier(limits []*spec) iter.Seq2[string, []*spec] {
	tiers := map[string]bool{document.OtherTiers: true} // "*" is an example of a tier that no rule names
	for _, s := range limits {
		tiers[s.Tier] = true
	}
	delete(tiers, document.Global)
	return func(yield func(string, []*spec) bool) {
		met := make([]*spec, 0, len(limits))
		for _, tier := range slices.Sorted(maps.Keys(tiers)) {
			met = met[:0]
			for _, s := range limits {
				if c.meets(s, tier) {
					met = append(met, s)
				}
			}
			if !yield(tier, met) {
				return
			}
		}
	}
}

// namedTier is a tier for which a rule has limits.
type namedTier struct {
	rule int
	tier string
}

// meets reports whether the item of a caller in tier can contain the limit s.
func (c *compiler) meets(s *spec, tier string) bool {
	switch {
	case s.Tier == tier, s.Tier == document.Global, c.rules.classes[s.class].allTiers():
		return true
	}
	return s.Tier == document.OtherTiers && !c.named[namedTier{s.rule, tier}]
}

// misfit describes a set of limits that does not fit one item.
type misfit struct {
	item
	tier    string
	limits  []*spec // up to the limit with which the set exceeds the item
	problem string  // from Items
}

// distinct returns each limit once, although several rules may have it.
func distinct(limits []*spec) iter.Seq[*spec] {
	return func(yield func(*spec) bool) {
		seen := make(map[hashed]bool, len(limits))
		for _, s := range limits {
			if !seen[s.count()] && !yield(s) {
				return
			}
			seen[s.count()] = true
		}
	}
}

// overflow describes the misfit if the limits do not fit into one item. It returns nil if they fit.
func (c *compiler) overflow(limits []*spec, item item, tier string) *misfit {
	m := &misfit{item: item, tier: tier}
	for s := range distinct(limits) {
		m.limits = append(m.limits, s)
		m.problem = c.problem(m.limits)
		if m.problem != "" {
			return m
		}
	}
	return nil
}

// problem returns why limits do not fit one item. Those with shards have items of their own.
func (c *compiler) problem(limits []*spec) string {
	var parts [2][][]algo.Rate
	for _, s := range limits {
		part := min(1, s.Spread.Shards)
		parts[part] = append(parts[part], s.rates())
	}
	many := ""
	if len(limits) > limiter.MaxCharges {
		many = fmt.Sprintf("are more than %d", limiter.MaxCharges)
	}
	return cmp.Or(many, c.rules.options.Items.Misfit(parts[0]), c.rules.options.Items.Misfit(parts[1]))
}

func (c *compiler) report(m *misfit) {
	first, last := m.limits[0], m.limits[len(m.limits)-1]
	c.doc.Report(last.Path, "does not fit one item: the first %d limits of a %q caller in the item (%s) %s; the first is %s; "+
		`use fewer requests in logs, or add "endpoint" to the per of limits of a single endpoint`, len(m.limits), m.tier, m.family, m.problem,
		first.Path)
}
