package rules

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// overrides are the limits of individual callers. They replace the limits of the caller's tier.
type overrides struct {
	rates  map[who]map[string]algo.Rate // rates that the document sets, by the identity of a caller and the name of a limit
	limits map[own]*limiter.Limit
	bits   []int // prefix lengths of the networks, longest first
}

// own identifies a limit that replaces base for some callers.
type own struct {
	base *limiter.Limit
	rate algo.Rate // rate that the override sets in the document
}

// who is one identity: a user, the id of an API key, the value of a claim, or a network.
type who struct {
	kind, value string
	network     netip.Prefix
}

// of returns the limit that applies to a caller in place of the limit l. If l counts by several identities, an
// override for the user, key or address takes precedence over an override for a claim. If several networks
// contain the address, the longest prefix applies.
func (o *overrides) of(c *class, caller *caller.Caller, l *limiter.Limit) *limiter.Limit {
	if len(o.rates) == 0 {
		return l
	}
	for _, part := range slices.Backward(c.parts) {
		if rate, ok := o.rate(part.word, caller, l.Name); ok {
			return o.limits[own{l, rate}]
		}
	}
	return l
}

// rate returns the rate that an override sets for the limits with this name. part names the identity of
// caller for which the override is.
func (o *overrides) rate(part string, caller *caller.Caller, name string) (rate algo.Rate, ok bool) {
	switch {
	case part == document.PerUser || part == document.PerClient && caller.User != "":
		rate, ok = o.rates[who{kind: document.PerUser, value: caller.User}][name]
	case part == document.PerAPIKey || part == document.PerClient && caller.APIKey != "":
		rate, ok = o.rates[who{kind: document.PerAPIKey, value: caller.APIKey}][name]
	case part == document.PerIP || part == document.PerClient:
		return o.rateOf(caller.IP, name)
	default:
		rate, ok = o.rates[who{kind: part, value: caller.Claims[strings.TrimPrefix(part, document.PerClaim)]}][name]
	}
	return rate, ok
}

// rateOf returns the rate that an override sets for an address. If several networks contain the
// address, the longest prefix applies.
func (o *overrides) rateOf(address netip.Prefix, name string) (algo.Rate, bool) {
	for _, bits := range o.bits {
		if !address.IsValid() || bits > address.Bits() {
			continue
		}
		network, err := address.Addr().Prefix(bits)
		if err != nil {
			continue
		}
		if rate, ok := o.rates[who{kind: document.PerIP, network: network}][name]; ok {
			return rate, true
		}
	}
	return algo.Rate{}, false
}

// maxOwn bounds the number of limits that overrides can create.
const maxOwn = 50_000

// keptFields are the fields of a limit that its overrides do not change.
var keptFields = []string{"lease", "shards", "sync_ms", "notify"}

// numbers identifies equal overrides of several callers: the same kind of identity, name of the limit
// and rate.
type numbers struct {
	kind, name string
	rate       algo.Rate
}

// kindName identifies the limits with one name that count by one kind of identity.
type kindName struct{ kind, name string }

// merge adds to each limit the rates of its overrides. It returns false if the overrides create too
// many limits.
func (c *compiler) merge() bool {
	byName, seen := map[string][]*document.Override{}, map[numbers]bool{}
	for i := range c.doc.Overrides {
		o := &c.doc.Overrides[i]
		if n := (numbers{o.Kind, o.Name, o.Rate}); !seen[n] {
			seen[n] = true
			byName[o.Name] = append(byName[o.Name], o)
		}
	}
	type key struct {
		hashed
		shadow bool
	}
	total, merged := 0, map[key][]algo.Rate{} // merged: rates of the overrides by limit, because several rules may share a limit
	for i := range c.specs {
		s := &c.specs[i]
		k := key{s.is, c.rules.rules[s.rule].shadow}
		if rates, ok := merged[k]; ok {
			s.own = rates
			continue
		}
		for _, o := range byName[s.Name] {
			if !c.rules.classes[s.class].countsBy(o.Kind) {
				continue
			}
			if total++; total > maxOwn {
				c.doc.Report(o.Path, "got too many overrides, want overrides for at most %d limits in total; an override counts once for each limit with its name", maxOwn)
				return false
			}
			s.own = append(s.own, c.clamp(inherit(s.Rate, o.Rate)))
		}
		merged[k] = s.own
	}
	return true
}

// inherit returns the numbers of an override of a limit. The override inherits the algorithm, the window
// or calendar, and the burst that it does not set. If the inherited burst is above the requests of the
// override, the burst is reduced to these requests. Without this reduction, an override that lowers a
// limit would keep the high burst.
func inherit(limit, own algo.Rate) algo.Rate {
	own.Calendar = inheritCalendar(limit, own)
	if own.Window == 0 && own.Calendar.Period == "" {
		own.Window = limit.Window
	}
	if own.Algorithm == "" && own.Calendar.Period != "" {
		own.Algorithm = algo.FixedWindow
	} else if own.Algorithm == "" {
		own.Algorithm = limit.Algorithm
	}
	if own.Burst == 0 && limit.Burst <= own.Requests && (own.Algorithm == algo.TokenBucket || own.Algorithm == algo.LeakyBucket) {
		own.Burst = limit.Burst
	}
	return own
}

// inheritCalendar returns the calendar of an override. A window of the override replaces the calendar of
// the limit. A period without an anchor has the anchor of the limit only if it is the same period.
func inheritCalendar(limit, own algo.Rate) algo.Calendar {
	c, of := own.Calendar, limit.Calendar
	if own.Window != 0 || of.Period == "" {
		return c
	}
	if c.Anchor == "" && (c.Period == "" || c.Period == of.Period) {
		c.Anchor = of.Anchor
	}
	c.Period, c.Zone = cmp.Or(c.Period, of.Period), cmp.Or(c.Zone, of.Zone)
	return c
}

// applyOverrides creates the limits of individual callers. Each is the same limit with other numbers,
// so a caller keeps its usage when it gains or loses an override. Callers with the same numbers share
// a limit.
func (c *compiler) applyOverrides() {
	o := overrides{map[who]map[string]algo.Rate{}, map[own]*limiter.Limit{}, nil}
	c.rules.overrides = o
	done := map[numbers]bool{}
	for i := range c.doc.Overrides {
		if c.doc.Full() {
			return // enough mistakes; each further override can cost a pass over all limits
		}
		one := &c.doc.Overrides[i]
		n := numbers{one.Kind, one.Name, one.Rate}
		if !done[n] && !c.applyOverride(one) {
			continue
		}
		done[n] = true
		w := who{kind: one.Kind, value: one.Value}
		if one.Kind == document.PerIP {
			w = who{kind: one.Kind, network: one.Network}
			if bits := one.Network.Bits(); !slices.Contains(o.bits, bits) {
				o.bits = append(o.bits, bits)
			}
		}
		if o.rates[w] == nil {
			o.rates[w] = map[string]algo.Rate{}
		}
		if _, twice := o.rates[w][one.Name]; twice {
			c.doc.Report(one.Path, "got two overrides of %s for %s %q, want one", document.Shorten(one.Name), one.Kind, document.Shorten(one.Value))
		}
		o.rates[w][one.Name] = one.Rate
	}
	slices.SortFunc(o.bits, func(a, b int) int { return b - a })
	c.rules.overrides = o
}

// applyOverride creates the limits that replace the limits with the override's name. It returns true
// if such limits exist and all replacements are valid.
func (c *compiler) applyOverride(o *document.Override) bool {
	if c.unknown[kindName{o.Kind, o.Name}] {
		return false
	}
	found := false
	for _, base := range c.named[o.Name] {
		if !c.rules.classes[base.made.class].countsBy(o.Kind) {
			continue
		}
		found = true
		key := own{base.made.Limit, o.Rate}
		if c.rules.overrides.limits[key] != nil {
			continue
		}
		l := c.instead(o, base)
		if l == nil {
			return false
		}
		c.rules.overrides.limits[key] = l
	}
	if !found {
		c.unknown[kindName{o.Kind, o.Name}] = true
		if c.doc.Complete {
			c.reportUnknown(o)
		}
	}
	return found
}

// reportUnknown reports an override of a limit that does not exist, and lists the names that exist.
// It reports each pair of kind and name once.
func (c *compiler) reportUnknown(o *document.Override) {
	const most = 10
	names, ok := c.names[o.Kind]
	if !ok {
		for i := range c.specs {
			if s := &c.specs[i]; c.rules.classes[s.class].countsBy(o.Kind) {
				names = append(names, s.Name)
			}
		}
		slices.Sort(names)
		names = slices.Compact(names)
		c.names[o.Kind] = names
	}
	_, exists := slices.BinarySearch(names, o.Name)
	switch kind := document.Shorten(o.Kind); {
	case exists: // the limit exists but has a mistake
	case len(names) == 0:
		c.doc.Report(o.Path, "no limit counts by %s", kind)
	default:
		c.doc.Report(o.Path, "no limit of this name counts by %s, want %s%s", kind, quoteAll(names[:min(most, len(names))]), document.DidYouMean(o.Name, names))
	}
}

// instead creates a limit with the numbers of an override. It returns nil if the numbers are invalid.
func (c *compiler) instead(o *document.Override, base *identified) *limiter.Limit {
	l := *base.made.Limit
	l.Rate = c.clamp(inherit(base.spec.Rate, o.Rate))
	switch {
	case base.spec.Spread == limiter.Spread{}:
		l.Spread = c.spread(o.Path, base.spec, l.Rate, l.Global)
	case l.Spread.Lease > 0 && l.Rate.Algorithm == algo.SlidingLog:
		l.Spread.Lease = 0
	default:
		l.Spread.Lease = min(l.Spread.Lease, capacity(l.Rate))
	}
	made, err := limiter.NewLimit(l)
	if err != nil {
		c.reportField(o.Path, base.made.path, c.rules.rules[base.spec.rule].path, err)
		return nil
	}
	c.noteShallow(o.Path, l.Rate)
	if most := min(made.MaxCost(), made.MaxLocalCost()); base.cost > most {
		c.doc.Report(o.Path, "got a capacity of %d, want at least %d, the cost in %s", most, base.cost, base.costPath)
		return nil
	}
	return made
}

// capacity returns how many requests a rate admits at once. The rate need not be valid.
func capacity(r algo.Rate) int64 {
	if r.Burst > 0 {
		return r.Burst
	}
	return r.Requests
}

func fieldOf(err error) *algo.FieldError {
	field, _ := errors.AsType[*algo.FieldError](err)
	return field
}
