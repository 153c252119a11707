package rules

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// What a subject's item of DynamoDB may hold, in bytes. Package dynamostore has its layout, and
// tests these sizes against it.
const (
	unitBytes = 1024          // of one write unit
	logBytes  = 8 * unitBytes // of an item that has sliding_logs

	maxNamespace = 64 // of deployments
	// keyBytes is what every item has: its key, which is the namespace, the format and the
	// subject, and its time to live.
	keyBytes = 2 + maxNamespace + 3 + limiter.MaxSubject + 3 + 6

	nameBytes    = 9 // of an attribute: a letter and the limit's id
	versionBytes = nameBytes + 9
	instantBytes = nameBytes + 11
	refundsBytes = nameBytes + 6
	entryBytes   = 12
)

// size is what limits take of an item at most.
type size struct {
	limits  int
	bytes   int // without the entries of logs
	entries int // of logs
}

func (s size) with(t size) size {
	return size{s.limits + t.limits, s.bytes + t.bytes, s.entries + t.entries}
}

func (s size) total() int { return keyBytes + s.bytes + entryBytes*s.entries }

// fits reports whether one write of one unit charges the limits of an item, or of eight units
// where it has logs.
func (s size) fits() bool {
	return s.limits <= limiter.MaxCharges && keyBytes+s.bytes <= unitBytes && (s.entries == 0 || s.total() <= logBytes)
}

// sizeOf returns what a limit of a rate takes; nothing if the rate is wrong. It does not depend
// on Options: all environments of one version count a caller in the same items.
func sizeOf(r algo.Rate) size {
	m, err := algo.New(r)
	if err != nil {
		return size{}
	}
	s := size{1, versionBytes + nameBytes + len(m.Fingerprint()), 0}
	switch m := m.(type) {
	case *algo.Bucket:
		s.bytes += instantBytes + refundsBytes
		if r.Algorithm == algo.LeakyBucket { // Options.MaxDelay lowers its burst
			s.bytes += digits(algo.MaxRequests) - digits(m.Burst)
		}
	case *algo.Window:
		// The newest index, and three counts: two that a pause has left, and one after it.
		index := math.MaxInt64 / int64(m.Length)
		count := nameBytes + len(strconv.FormatInt(index, 36)) + numberBytes(m.MaxDebt())
		s.bytes += nameBytes + numberBytes(index) + 3*count
	case *algo.Log:
		s.bytes += instantBytes + nameBytes + 3
		s.entries = int(m.MaxDebt())
	}
	return s
}

// numberBytes returns what DynamoDB counts for a number from 0 to n.
func numberBytes(n int64) int { return 1 + (digits(n)+1)/2 }

func digits(n int64) int { return len(strconv.FormatInt(n, 10)) }

// units returns the write units of a number of bytes.
func units(bytes int) int { return (bytes + unitBytes - 1) / unitBytes }

// place decides in which items limits are counted, and assigns their classes. The limits that
// count by caller and endpoint are in the caller's item if all limits of every caller fit it, or
// in one item for each caller and endpoint. What fits neither way is a problem.
func (p *parser) place(specs []spec) {
	p.assign(specs, false)
	if len(p.problems) > 0 {
		return
	}
	if p.misfit(specs) != nil {
		p.assign(specs, true)
		if problem := p.misfit(specs); problem != nil {
			p.problems = append(p.problems, *problem)
		}
		p.note("rules", "give a caller more limits than one item holds, so those by endpoint are in one item for each caller and endpoint")
	}
	for i := range specs {
		p.noteShallow(specs[i].path, specs[i].rate)
		if s := sizeOf(specs[i].rate); s.entries > 0 && units(s.total()) > 1 {
			p.note(specs[i].path, "each write of its item costs up to %d write units on DynamoDB", units(s.total()))
		}
	}
}

// shallow is the depth of a bucket that a clock which is ahead by as much keeps full for others;
// it is also the skew that has an alarm.
const shallow = 250 * time.Millisecond

// noteShallow notes a bucket that fills in less time than clocks may be apart.
func (p *parser) noteShallow(path string, r algo.Rate) {
	m, err := algo.New(r)
	if err != nil {
		return // which is noted elsewhere
	}
	if b, ok := m.(*algo.Bucket); ok && b.Depth < shallow {
		p.note(path, "the bucket fills in %s: an environment whose clock is ahead by more keeps it from all others; 250ms and more (a larger burst) is safe with the clocks of AWS", b.Depth)
	}
}

func (p *parser) note(path, format string, args ...any) {
	p.rules.notes = append(p.rules.notes, Problem{path, fmt.Sprintf(format, args...)})
}

// assign gives each limit its class.
func (p *parser) assign(specs []spec, split bool) {
	p.rules.split, p.rules.classes = split, nil
	clear(p.classes)
	for i := range specs {
		s := &specs[i]
		r := &p.rules.rules[s.rule]
		// Limits in cells are in no item: no more of them may meet than one request may charge.
		s.class = p.class(newClass(s.per, r.method, r.pattern, split || s.spread.Cells > 0))
	}
}

// container is the limits that are counted in one item for a given caller. A limit of client is
// in those of all that a client can be.
type container struct {
	name   string
	limits []contained
}

// contained is a limit in a container.
type contained struct {
	*spec
	at     int // its place in the document
	size   size
	shards bool   // it is in items of its own, and in one step with the others where the store is a memory
	always bool   // it is there whatever tier a caller has: callers of all tiers share it
	is     hashed // limits of several rules may be one
}

// containers returns the items of callers, in file order.
func (p *parser) containers(specs []spec) (list []*container) {
	type key struct {
		family        string
		shadow, cells bool
	}
	type shared struct { // limits of several rules that are one
		key
		hashed
	}
	byKey, seen := map[key]*container{}, map[shared]bool{}
	own := p.overrideSizes()
	for i := range specs {
		s := &specs[i]
		class := &p.rules.classes[s.class]
		c := contained{spec: s, at: i, size: p.sizeOf(s, class, own), shards: s.spread.Shards > 0, always: s.tier == globalKey || class.allTiers()}
		c.is, _ = p.identity(s)
		// Whether a caller has a limit of otherTiers depends on the tiers that its rule names.
		every := s.tier == otherTiers && !c.always
		for _, family := range class.families {
			k := key{family, p.rules.rules[s.rule].shadow, s.spread.Cells > 0}
			if seen[shared{k, c.is}] && !every {
				continue
			}
			seen[shared{k, c.is}] = true
			if byKey[k] == nil {
				byKey[k] = &container{name: family}
				list = append(list, byKey[k])
			}
			byKey[k].limits = append(byKey[k].limits, c)
		}
	}
	return list
}

// sizeOf returns what a limit takes, as the document or the largest of its overrides has it.
func (p *parser) sizeOf(s *spec, c *class, own map[string]map[string]size) size {
	if s.spread.Cells > 0 { // which are in no item
		return size{limits: 1}
	}
	most := sizeOf(s.rate)
	for kind, size := range own[s.name] {
		if c.countsBy(kind) {
			most.bytes, most.entries = max(most.bytes, size.bytes), max(most.entries, size.entries)
		}
	}
	if n := s.spread.Shards; n > 0 { // each is an item, and has its part
		most.entries = (most.entries + n - 1) / n
	}
	return most
}

// overrideSizes returns the most that overrides take, by the limit's name and the kind of caller.
func (p *parser) overrideSizes() map[string]map[string]size {
	own := map[string]map[string]size{}
	for _, o := range p.overrides {
		if own[o.name] == nil {
			own[o.name] = map[string]size{}
		}
		most, one := own[o.name][o.who.kind], sizeOf(o.rate)
		own[o.name][o.who.kind] = size{1, max(most.bytes, one.bytes), max(most.entries, one.entries)}
	}
	return own
}

// misfit returns what does not fit an item; nil if everything does. Most documents are settled
// by the limits of all tiers together.
func (p *parser) misfit(specs []spec) *Problem {
	names := map[namedTier]bool{}
	for i := range specs {
		names[namedTier{specs[i].rule, specs[i].tier}] = true
	}
	steps := maxSteps
	for _, c := range p.containers(specs) {
		if overflowing(c.limits) == nil {
			continue
		}
		all, byTier := c.tiers()
		for _, tier := range slices.Sorted(maps.Keys(byTier)) {
			met := slices.Concat(all, byTier[tier])
			if steps -= len(met) + len(byTier[otherTiers]); steps < 0 {
				return &Problem{"rules", "have too many tiers and limits to tell whether those of a caller fit one item"}
			}
			if tier != otherTiers {
				for _, l := range byTier[otherTiers] {
					if !names[namedTier{l.rule, tier}] {
						met = append(met, l)
					}
				}
			}
			slices.SortFunc(met, func(a, b contained) int { return cmp.Compare(a.at, b.at) })
			if o := overflowing(distinct(met)); o != nil {
				return &Problem{o.last.path, o.message(c.name, tier)}
			}
		}
	}
	return nil
}

// distinct leaves of the limits that are one the first.
func distinct(limits []contained) []contained {
	seen := make(map[hashed]bool, len(limits))
	return slices.DeleteFunc(limits, func(c contained) bool {
		before := seen[c.is]
		seen[c.is] = true
		return before
	})
}

// maxSteps bounds the work of finding out whether limits fit.
const maxSteps = 2_000_000

// namedTier is a tier for which a rule has limits.
type namedTier struct {
	rule int
	tier string
}

// tiers returns the limits of c that callers of all tiers have, and the others by the tier that
// they are for. A tier that none is for is like any other such, which has those for otherTiers.
func (c *container) tiers() (all []contained, byTier map[string][]contained) {
	byTier = map[string][]contained{otherTiers: nil}
	for _, l := range c.limits {
		if l.always {
			all = append(all, l)
		} else {
			byTier[l.tier] = append(byTier[l.tier], l)
		}
	}
	return all, byTier
}

// overflow is limits that do not fit one item.
type overflow struct {
	first, last *contained // which are too much together
	sum         size       // of all
	own         size       // of the item that last is in
}

// overflowing returns how limits do not fit one item; nil if they do.
func overflowing(limits []contained) *overflow {
	var o overflow
	var parts [2]size // of the limits without shards, and of those with
	for i := range limits {
		l := &limits[i]
		part := &parts[0]
		if l.shards {
			part = &parts[1]
		}
		*part = part.with(l.size)
		if o.first == nil {
			o.first = l
		}
		o.sum = o.sum.with(l.size)
		if o.last == nil && (!part.fits() || o.sum.limits > limiter.MaxCharges) {
			o.last, o.own = l, *part
		}
	}
	if o.last == nil {
		return nil
	}
	return &o
}

// message says what does not fit, and what would.
func (o *overflow) message(family, tier string) string {
	where := fmt.Sprintf("that a %q caller has in one item (%s)", tier, family)
	switch {
	case o.sum.limits > limiter.MaxCharges:
		return fmt.Sprintf("is one of %d limits %s, and at most %d fit one write; the first is %s", o.sum.limits, where, limiter.MaxCharges, o.first.path)
	case keyBytes+o.own.bytes > unitBytes:
		return fmt.Sprintf("is the %s of the limits %s: they take up to %d bytes with it, and one write unit holds %d; the first is %s",
			ordinal(o.own.limits), where, keyBytes+o.own.bytes, unitBytes, o.first.path)
	}
	alternative := "use a sliding_window"
	if most := (logBytes - o.own.total() + entryBytes*o.last.size.entries) / entryBytes / 2 * max(1, o.last.spread.Shards); most > 0 {
		alternative = fmt.Sprintf("at most %d requests fit, or use a sliding_window", most)
	}
	return fmt.Sprintf("is one of the sliding_logs %s: it takes up to %d bytes with them, and %d write units hold %d; %s", where, o.own.total(), logBytes/unitBytes, logBytes, alternative)
}

// ordinal returns n as a place in a row. There are no more than MaxCharges.
func ordinal(n int) string {
	switch n {
	case 1:
		return "first"
	case 2:
		return "second"
	case 3:
		return "third"
	}
	return strconv.Itoa(n) + "th"
}
