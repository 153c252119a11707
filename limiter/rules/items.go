package rules

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// Items has the sizes of limits in a store that keeps all limits of a subject in one item. dynamostore.Items implements
// it for DynamoDB. The sizes MUST depend only on the arguments, so that all environments of one version of the rules
// count a caller in the same items.
type Items interface {
	// Size returns the largest size, in bytes, of a limit with a rate. instants is the size of the instants of requests,
	// which is in proportion to the requests if there are many, and fixed the size of all else.
	Size(r algo.Rate) (fixed, instants int)

	// Misfit returns by how many bytes an item with limits of these sizes is too large, and a description of the
	// problem, such as "take up to 1078 bytes, want at most 1024". It returns 0 and "" if the limits fit.
	Misfit(fixed, instants int) (excess int, problem string)

	// Units returns the largest number of write units that a write of an item with limits of these sizes costs.
	Units(fixed, instants int) int
}

// unbounded is the Items of a store whose items have no bound.
type unbounded struct{}

func (unbounded) Size(algo.Rate) (fixed, instants int) { return 0, 0 }
func (unbounded) Misfit(_, _ int) (int, string)        { return 0, "" }
func (unbounded) Units(_, _ int) int                   { return 1 }

// size is the maximum size of several limits in an item, as Items has it.
type size struct{ limits, fixed, instants int }

func (s size) with(t size) size {
	return size{s.limits + t.limits, s.fixed + t.fixed, s.instants + t.instants}
}

// place decides which items contain which limits. If all limits of every caller fit one item, this item
// contains the limits by caller and endpoint too. If they do not fit, each pair of caller and endpoint
// has its own item. If the limits do not fit these items either, place reports a mistake.
func (c *compiler) place() {
	if c.doc.Mistakes() > 0 || c.misfit() == nil {
		return
	}
	c.assign(true)
	if m := c.misfit(); m != nil {
		m.movable = c.movable(m)
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
			it := item{family, c.rules.rules[s.rule].Shadow}
			if limits[it] == nil {
				order = append(order, it)
			}
			limits[it] = append(limits[it], s)
		}
	}
	return limits, order
}

// size returns the largest size of the limit in an item, with the rate of the limit or with the rate of an override.
// each is the size of the instants of one request.
func (c *compiler) size(s *spec) (most size, each int) {
	most.limits = 1
	shards := int64(max(1, s.Spread.Shards)) // each shard is an item with a part of the requests
	for _, r := range append([]algo.Rate{s.Rate}, s.own...) {
		fixed, instants := c.rules.options.Items.Size(r)
		most.fixed = max(most.fixed, fixed)
		if instants > 0 {
			each = instants / int(r.Requests)
			r.Requests = (r.Requests + shards - 1) / shards
			_, instants = c.rules.options.Items.Size(r)
			most.instants = max(most.instants, instants)
		}
	}
	return most, each
}

func (c *compiler) misfit() *misfit {
	limits, order := c.items()
	for _, it := range order {
		if c.overflow(limits[it], it, "") == nil { // if the limits of all tiers fit together, the limits of each tier fit
			continue
		}
		for tier, met := range c.byTier(limits[it]) {
			if m := c.overflow(met, it, tier); m != nil {
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
	tier        string
	first, last *spec // first limit of the set, and the limit with which the set exceeds the item
	largest     *spec // limit of the set up to last with the most instants
	movable     *spec // a limit that could leave the item if it counted by endpoint; nil if there is none
	limits      int   // number of limits in the set; one for each tier of a limit with across_tiers
	own         size  // size of all limits up to the limit last that are in the same item
	inFlight    bool  // one of these limits counts requests in flight
}

// distinct returns each limit once, although several rules may have it.
func distinct(limits []*spec) iter.Seq[*spec] {
	return func(yield func(*spec) bool) {
		seen := make(map[hashed]bool, len(limits))
		for _, s := range limits {
			if !seen[s.is] && !yield(s) {
				return
			}
			seen[s.is] = true
		}
	}
}

// overflow describes the misfit if the limits do not fit into one item. It returns nil if they fit.
func (c *compiler) overflow(limits []*spec, it item, tier string) *misfit {
	m := misfit{item: it, tier: tier}
	most := 0
	var parts [2]size // index 0 is the size of limits without shards, index 1 the size of limits with shards
	for s := range distinct(limits) {
		part := &parts[0]
		// Shards have their own items. m.limits still counts the limit, because a store in memory
		// charges all limits in one step.
		if s.Spread.Shards > 0 {
			part = &parts[1]
		}
		one, _ := c.size(s)
		*part = part.with(one)
		if m.first == nil {
			m.first = s
		}
		if m.last == nil && one.instants >= most {
			m.largest, most = s, one.instants
		}
		excess, _ := c.rules.options.Items.Misfit(part.fixed, part.instants)
		m.inFlight = m.inFlight || m.last == nil && s.Count.Of == limiter.CountConcurrent
		if m.limits += 1 + len(s.Tiers); m.last == nil && (excess > 0 || m.limits > limiter.MaxCharges) {
			m.last, m.own = s, *part
		}
	}
	if m.last == nil {
		return nil
	}
	return &m
}

// movable returns the last limit in the item of m that belongs to only one endpoint but does not count by
// endpoint. It returns nil if there is none.
func (c *compiler) movable(m *misfit) *spec {
	limits, _ := c.items()
	shared := map[hashed]int{}
	for _, s := range c.specs {
		shared[s.is]++
	}
	for _, s := range slices.Backward(limits[m.item]) {
		if !s.byEndpoint() && !c.rules.rules[s.rule].pattern.below && shared[s.is] == 1 {
			return s
		}
	}
	return nil
}

// remedy describes changes after which fewer limits share the item.
func (m *misfit) remedy() string {
	if m.movable == nil {
		return ""
	}
	return `; add "endpoint" to the per of limits of a single endpoint, such as ` + m.movable.Path
}

func (c *compiler) report(m *misfit) {
	where := fmt.Sprintf("a %q caller in the item (%s)", m.tier, m.family)
	report := func(format string, args ...any) { c.doc.Report(m.last.Path, "does not fit one item: "+format, args...) }
	excess, problem := c.rules.options.Items.Misfit(m.own.fixed, m.own.instants)
	switch _, fixed := c.rules.options.Items.Misfit(m.own.fixed, 0); {
	case m.limits > limiter.MaxCharges:
		report("got %d limits of %s, want at most %d; the first is %s%s", m.limits, where, limiter.MaxCharges, m.first.Path, m.remedy())
		return
	case fixed != "":
		report("the first %d limits of %s %s; the first is %s%s", m.own.limits, where, fixed, m.first.Path, m.remedy())
		return
	}
	kinds, remedy, instead := "sliding_logs", "use a sliding_window", ", or use a sliding_window"
	if m.inFlight {
		kinds, remedy = "requests in flight", "count them by another subject"
	}
	if m.largest.Count.Of == limiter.CountConcurrent {
		instead = ""
	}
	if largest, each := c.size(m.largest); each > 0 && largest.instants-excess >= each {
		remedy = fmt.Sprintf("at most %d requests fit%s", (largest.instants-excess)/each*max(1, m.largest.Spread.Shards), instead)
	}
	m.last = m.largest
	report("the limits of %s, including %s, %s; %s", where, kinds, problem, remedy)
}
