package rules

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// identities maps identities of callers to values.
type identities[V any] struct {
	values map[document.Identity]V
	bits   []int // prefix lengths of the networks, longest first
}

func (m *identities[V]) get(i document.Identity) (v V, ok bool) {
	v, ok = m.values[i.Key()]
	return v, ok
}

func (m *identities[V]) set(i document.Identity, v V) {
	if m.values == nil {
		m.values = map[document.Identity]V{}
	}
	m.values[i.Key()] = v
	if bits := i.Network.Bits(); i.Kind == document.PerIP && !slices.Contains(m.bits, bits) {
		m.bits = append(m.bits, bits)
		slices.SortFunc(m.bits, func(a, b int) int { return b - a })
	}
}

// networks calls visit with the values of the networks that contain an address, the longest prefix first. It ends when
// visit returns false.
func (m *identities[V]) networks(address netip.Prefix, visit func(V) bool) {
	for _, bits := range m.bits {
		if !address.IsValid() || bits > address.Bits() {
			continue
		}
		network, err := address.Addr().Prefix(bits)
		if err != nil {
			continue
		}
		if v, ok := m.get(document.Identity{Kind: document.PerIP, Network: network}); ok && !visit(v) {
			return
		}
	}
}

// of calls visit with the values of a caller that a word of per identifies, for an address the longest prefix first. claim
// is the value of a claim. It ends when visit returns false.
func (m *identities[V]) of(word, claim string, who *caller.Caller, visit func(V) bool) {
	i := document.Identity{Kind: word, Value: claim}
	switch {
	case word == document.PerUser || word == document.PerClient && who.User != "":
		i = document.Identity{Kind: document.PerUser, Value: who.User}
	case word == document.PerAPIKey || word == document.PerClient && who.APIKey != "":
		i = document.Identity{Kind: document.PerAPIKey, Value: who.APIKey}
	case word == document.PerIP || word == document.PerClient:
		m.networks(who.IP, visit)
		return
	}
	if v, ok := m.get(i); ok {
		visit(v)
	}
}

// overridden returns the limit that an override of the document sets for a caller in place of l; l itself if there is
// none. If l counts by several identities, an override for the user, key or address takes precedence over an override
// for a claim. If several networks contain the address, the longest prefix applies.
func (r *Rules) overridden(q *Request, l *limit) *limiter.Limit {
	if len(r.overrides.values) == 0 {
		return l.Limit
	}
	class := &r.classes[l.class]
	for i, part := range slices.Backward(class.parts) {
		if rate, ok := r.override(part.word, class.value(i, q), &q.Caller, l.Name); ok {
			return r.own[ownKey{l.Limit, rate}]
		}
	}
	return l.Limit
}

// ownKey identifies a limit with the numbers that an override sets.
type ownKey struct {
	base *limiter.Limit
	rate algo.Rate
}

// override returns the numbers of the override for who, identified by a word of per. claim is the value of a claim. ok is
// false if there is none.
func (r *Rules) override(word, claim string, who *caller.Caller, name string) (rate algo.Rate, ok bool) {
	r.overrides.of(word, claim, who, func(rates map[string]algo.Rate) bool {
		rate, ok = rates[name]
		return !ok
	})
	return rate, ok
}

// applied is the limit that applies to a caller in place of a limit of the document.
type applied struct {
	limit      *limiter.Limit
	overridden bool  // an override or the record of an API key sets the numbers
	mistake    error // the reason why the record does not set the numbers; nil if there is none
}

// apply returns the limit that applies to a request in place of the limit l. Interventions take precedence over the
// limits of an API key's record, and these over overrides.
func (r *Rules) apply(q *Request, l *limit) applied {
	return r.upTo(q, l, r.whole(q, l))
}

// whole is apply without up_to.
func (r *Rules) whole(q *Request, l *limit) applied {
	return r.raise(&q.Caller, q.At, l, r.recorded(q, l))
}

func (r *Rules) recorded(q *Request, l *limit) applied {
	who, of := &q.Caller, r.overridden(q, l)
	if who.Limits == nil || !r.classes[l.class].countsKey(who) {
		return applied{limit: of, overridden: of != l.Limit}
	}
	return r.records.get(recordKey{of, who.Limits.Text()}, func() applied { return r.applyRecord(who.Limits, l, of) })
}

// countedBy returns the limits with a name that count by a kind of identity, in file order.
func (r *Rules) countedBy(kind, name string) (list []*identified) {
	for _, base := range r.named[name] {
		if r.classes[base.class].countsBy(kind) {
			list = append(list, base)
		}
	}
	return list
}

// replace creates the limit base with a caller's own numbers, which an override of the document or the record of an
// API key sets. It is the same limit with other numbers, so a caller keeps its usage when its own numbers are added
// or removed. path is the place of the numbers, for messages. problem is nil if the numbers are valid.
func (r *Rules) replace(base *identified, path string, own algo.Rate) (made *limiter.Limit, note string, problem *Problem) {
	l := *base.Limit
	l.Rate = r.options.clamp(inherit(base.spec.Rate, own))
	switch {
	case base.spec.Spread == limiter.Spread{}:
		l.Spread, note = r.options.spread(base.spec, l.Rate, l.Global)
	case l.Spread.Lease > 0 && l.Rate.Algorithm.Logs():
		l.Spread.Lease = 0
	default:
		l.Spread.Lease = min(l.Spread.Lease, l.Rate.Capacity())
	}
	made, err := r.options.newLimit(l)
	if err != nil {
		mistake := r.mistake(path, base.spec, err)
		return nil, note, &mistake
	}
	if most := base.most(made); base.cost > most {
		return nil, note, &Problem{Path: path, Message: fmt.Sprintf("got a capacity of %d, want at least %d, the cost in %s", most, base.cost,
			base.costPath)}
	}
	return made, note, nil
}

// inherit returns the numbers of an override of a limit. The override inherits the algorithm, the window
// or calendar, and the burst that it does not set. If the inherited burst is above the requests of the
// override, the burst is reduced to these requests. Without this reduction, an override that lowers a
// limit would keep the high burst.
func inherit(limit, own algo.Rate) algo.Rate {
	own.Calendar, own.Counts, own.Regions = inheritCalendar(limit, own), limit.Counts, limit.Regions
	if own.Window == 0 && own.Calendar.Period == "" {
		own.Window = limit.Window
	}
	if own.Algorithm == "" && own.Calendar.Period == "" {
		own.Algorithm = limit.Algorithm
	}
	own.Algorithm = own.WithDefaults().Algorithm
	if own.Burst == 0 && limit.Burst <= own.Requests && own.Algorithm.HasBurst() {
		own.Burst = limit.Burst
	}
	if limit.Of > 0 { // the numbers apply in every tier, so they bound the count
		own.Of = max(own.Burst, own.Requests)
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
