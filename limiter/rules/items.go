package rules

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// These are the sizes, in bytes, of a subject's item in DynamoDB. Package dynamostore defines the
// layout of an item, and its tests check these sizes.
const (
	unitBytes = 1024          // size of one write unit
	logBytes  = 8 * unitBytes // largest size of an item with sliding_logs

	maxNamespace = 64 // longest namespace of a deployment
	// keyBytes is the size of the attributes that every item has: its key (namespace, format and
	// subject) and its time to live.
	keyBytes = 2 + maxNamespace + 3 + limiter.MaxSubject + 3 + 6

	nameBytes    = 9 // the name of an attribute: a letter and the limit's id
	versionBytes = nameBytes + 9
	instantBytes = nameBytes + 11
	refundsBytes = nameBytes + 6
	entryBytes   = 12
	stampBytes   = nameBytes + 3 + 12 + 10 + 4 // attribute of a log: a list of an instant, a generation and a length
	slotBytes    = 8 + 1 + 11                  // a member of the map of slots: its key and the instant of the request
)

// size is the maximum size of several limits in an item.
type size struct {
	limits  int
	bytes   int // size without the entries of logs
	entries int // number of entries of logs
	slots   int // number of slots of concurrent limits
}

func (s size) with(t size) size {
	return size{s.limits + t.limits, s.bytes + t.bytes, s.entries + t.entries, s.slots + t.slots}
}

func (s size) total() int { return keyBytes + s.bytes + entryBytes*s.entries + slotBytes*s.slots }

// lists reports whether the limits keep the instant of each request.
func (s size) lists() bool { return s.entries+s.slots > 0 }

// fits reports whether the limits fit an item: one write unit, or eight units with logs or slots.
func (s size) fits() bool {
	return s.limits <= limiter.MaxCharges && keyBytes+s.bytes <= unitBytes && (!s.lists() || s.total() <= logBytes)
}

// sizeOf returns the size of a limit with a rate. It returns the zero size if the rate is invalid.
// The size does not depend on Options, so all environments of one version count a caller in the same
// items.
func sizeOf(r algo.Rate) size {
	m, err := algo.New(r)
	if err != nil {
		return size{}
	}
	s := size{limits: 1, bytes: versionBytes + nameBytes + len(m.Fingerprint())}
	switch m := m.(type) {
	case *algo.Bucket:
		s.bytes += instantBytes + refundsBytes
		if r.Algorithm == algo.LeakyBucket { // the size is that of the largest burst, because Options.MaxDelay can reduce the burst
			s.bytes += digits(algo.MaxRequests) - digits(m.Burst)
		}
	case *algo.Window:
		// For a window, an item contains the newest index and up to three counts: after a pause, it still
		// has the counts of two old windows, and the next request adds a third.
		index := m.Index(math.MaxInt64 - 4*algo.Instant(algo.MaxPeriod)) // the largest index that a decision can have
		count := nameBytes + len(strconv.FormatInt(index, 36)) + numberBytes(m.MaxDebt())
		s.bytes += nameBytes + numberBytes(index) + 3*count
	case *algo.Log:
		s.bytes += stampBytes + nameBytes + 3 + nameBytes + numberBytes(math.MaxInt64/int64(algo.MaxSkew/2))
		s.entries = int(m.MaxDebt())
	case *algo.Slots:
		s.bytes += nameBytes + 3 + nameBytes + numberBytes(math.MaxInt64/int64(algo.MaxSkew/2))
		s.slots = int(m.Requests)
	}
	return s
}

// numberBytes returns the largest size, in bytes, that a number from 0 to n has in DynamoDB.
func numberBytes(n int64) int { return 1 + (digits(n)+1)/2 }

func digits(n int64) int { return len(strconv.FormatInt(n, 10)) }

func units(bytes int) int { return (bytes + unitBytes - 1) / unitBytes }

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
		c.doc.Report(m.last.Path, "%s", m)
	}
	c.doc.Note("rules", "the limits of one caller do not fit one item, so the limits by endpoint use one item for each caller and endpoint")
}

// assign sets the class of each limit. If split is true, each endpoint of a caller has its own item.
func (c *compiler) assign(split bool) {
	c.rules.split, c.rules.classes = split, nil
	clear(c.classes)
	for i := range c.specs {
		s := &c.specs[i]
		r := &c.rules.rules[s.rule]
		s.class = c.class(newClass(s.Per, r.method, r.pattern, split))
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
	for i := range c.specs {
		s := &c.specs[i]
		for _, family := range c.rules.classes[s.class].families {
			it := item{family, c.rules.rules[s.rule].shadow}
			if limits[it] == nil {
				order = append(order, it)
			}
			limits[it] = append(limits[it], s)
		}
	}
	return limits, order
}

// size returns the largest size of the limit in an item, with the rate of the limit or with the rate of
// an override.
func (s *spec) size() size {
	most := sizeOf(s.Rate)
	for _, r := range s.own {
		one := sizeOf(r)
		most.bytes, most.entries, most.slots = max(most.bytes, one.bytes), max(most.entries, one.entries), max(most.slots, one.slots)
	}
	if n := s.Spread.Shards; n > 0 { // each shard is an item with a part of the entries
		most.entries = (most.entries + n - 1) / n
	}
	return most
}

func (c *compiler) misfit() *misfit {
	named := map[namedTier]bool{}
	for i := range c.specs {
		named[namedTier{c.specs[i].rule, c.specs[i].Tier}] = true
	}
	limits, order := c.items()
	for _, it := range order {
		if overflow(limits[it], it, "") == nil { // if the limits of all tiers fit together, the limits of each tier fit
			continue
		}
		tiers := map[string]bool{document.OtherTiers: true} // "*" is an example of a tier that no rule names
		for _, s := range limits[it] {
			tiers[s.Tier] = true
		}
		delete(tiers, document.Global)
		for _, tier := range slices.Sorted(maps.Keys(tiers)) {
			met := slices.DeleteFunc(slices.Clone(limits[it]), func(s *spec) bool { return !c.meets(s, tier, named) })
			if m := overflow(met, it, tier); m != nil {
				return m
			}
		}
	}
	return nil
}

// namedTier is a tier for which a rule has limits.
type namedTier struct {
	rule int
	tier string
}

// meets reports whether the item of a caller in tier can contain the limit s. named has the tiers that
// each rule names.
func (c *compiler) meets(s *spec, tier string, named map[namedTier]bool) bool {
	switch {
	case s.Tier == tier, s.Tier == document.Global, c.rules.classes[s.class].allTiers():
		return true
	}
	return s.Tier == document.OtherTiers && !named[namedTier{s.rule, tier}]
}

// misfit describes a set of limits that does not fit one item.
type misfit struct {
	item
	tier        string
	first, last *spec // first limit of the set, and the limit with which the set exceeds the item
	movable     *spec // a limit that could leave the item if it counted by endpoint; nil if there is none
	limits      int   // number of limits in the set
	own         size  // size of all limits up to the limit last that are in the same item
}

// overflow describes the misfit if the limits do not fit into one item. It returns nil if they fit.
func overflow(limits []*spec, it item, tier string) *misfit {
	m := misfit{item: it, tier: tier}
	var parts [2]size // index 0 is the size of limits without shards, index 1 of those with shards
	seen := make(map[hashed]bool, len(limits))
	for _, s := range limits {
		if seen[s.is] { // an earlier rule has the same limit
			continue
		}
		seen[s.is] = true
		part := &parts[0]
		// Shards have their own items. m.limits still counts the limit, because a store in memory
		// charges all limits in one step.
		if s.Spread.Shards > 0 {
			part = &parts[1]
		}
		*part = part.with(s.size())
		if m.first == nil {
			m.first = s
		}
		if m.limits++; m.last == nil && (!part.fits() || m.limits > limiter.MaxCharges) {
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
	for i := range c.specs {
		shared[c.specs[i].is]++
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

func (m *misfit) String() string {
	where := fmt.Sprintf("a %q caller in the item (%s)", m.tier, m.family)
	switch {
	case m.limits > limiter.MaxCharges:
		return fmt.Sprintf("does not fit one item: got %d limits of %s, want at most %d; the first is %s%s", m.limits, where, limiter.MaxCharges, m.first.Path, m.remedy())
	case keyBytes+m.own.bytes > unitBytes:
		return fmt.Sprintf("does not fit one item: the first %d limits of %s take up to %d bytes, want at most %d (one write unit); the first is %s%s",
			m.own.limits, where, keyBytes+m.own.bytes, unitBytes, m.first.Path, m.remedy())
	}
	last, kinds, remedy := m.last.size(), "sliding_logs", "use a sliding_window"
	free := logBytes - m.own.total() + entryBytes*last.entries + slotBytes*last.slots
	if m.own.slots > 0 {
		kinds, remedy = "requests in flight", "count them by another subject"
	}
	if most := free / entryBytes / 2 * max(1, m.last.Spread.Shards); last.entries > 0 && most > 0 {
		remedy = fmt.Sprintf("at most %d requests fit, or use a sliding_window", most)
	} else if most := free / slotBytes; last.slots > 0 && most > 0 {
		remedy = fmt.Sprintf("at most %d requests fit", most)
	}
	return fmt.Sprintf("does not fit one item: the limits of %s, including %s, take up to %d bytes, want at most %d (%d write units); %s", where, kinds, m.own.total(), logBytes, logBytes/unitBytes, remedy)
}
