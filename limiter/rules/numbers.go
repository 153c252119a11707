package rules

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

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

// known calls visit with the values of a caller: of its networks and, unless its credential was rejected, of its user and its
// API key.
func (m *identities[V]) known(c *caller.Caller, visit func(V)) {
	m.networks(c.IP, func(v V) bool {
		visit(v)
		return true
	})
	if c.Rejected {
		return
	}
	for _, i := range [...]document.Identity{{Kind: document.PerUser, Value: c.User}, {Kind: document.PerAPIKey, Value: c.APIKey}} {
		if v, ok := m.get(i); ok { // no identity has an empty value
			visit(v)
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

// ownKey identifies a limit with a caller's own numbers by what sets them.
type ownKey struct {
	base     *limiter.Limit
	override algo.Rate // the numbers of an override of the document
	record   string    // the limits of an API key's record, as text; "" for none
	requests int64     // the number that an operator set; 0 for none
	raised   int64     // the version of what operators set
	percent  int64     // the part of a limit with up_to; 0 for the whole limit
}

// applied is the limit that applies to a caller in place of a limit of the document.
type applied struct {
	limit      *limiter.Limit
	overridden bool  // the caller has numbers of its own
	mistake    error // the reason why the record does not set the numbers; nil if there is none
}

// apply returns the limit that applies to a request in place of the limit l. What operators set takes precedence over the
// limits of an API key's record, and these over overrides. With whole, no tier has only a part of the limit.
func (r *Rules) apply(q *Request, l *limit, whole bool) applied {
	key := ownKey{base: l.Limit}
	if !whole && len(l.UpTo) > 0 {
		key.percent = l.part(r.Tier(q.Caller.Tier)) % 100 // 100 % is the whole limit
	}
	record := q.Caller.Limits
	if record != nil && r.classes[l.class].countsKey(&q.Caller) {
		key.record = record.Text()
	}
	if len(r.overrides.values) > 0 {
		key.override = r.override(q, l)
	}
	if r.interventions != nil {
		key.requests, key.raised = r.raised(q, l)
	}
	if key == (ownKey{base: l.Limit}) {
		return applied{limit: l.Limit}
	}
	if made := r.own[key]; made != nil {
		return applied{limit: made, overridden: true}
	}
	return r.made.get(key, func() applied { return r.make(key, l, record) })
}

// override returns the numbers that an override of the document sets for a caller; the zero Rate if there are none. If l
// counts by several identities, an override for the user, key or address takes precedence over an override for a claim. If
// several networks contain the address, the longest prefix applies.
func (r *Rules) override(q *Request, l *limit) (rate algo.Rate) {
	class := &r.classes[l.class]
	for i, part := range slices.Backward(class.parts) {
		found := false
		r.overrides.of(part.word, class.value(i, q), &q.Caller, func(rates map[string]algo.Rate) bool {
			rate, found = rates[l.Name]
			return !found
		})
		if found {
			break
		}
	}
	return rate
}

// countsKey reports whether the subject of this caller in c contains its API key.
func (c *class) countsKey(who *caller.Caller) bool {
	for i := range c.parts {
		if word := c.parts[i].word; word == document.PerAPIKey || word == document.PerClient && who.User == "" {
			return who.APIKey != ""
		}
	}
	return false
}

// make creates the limit of a key. Numbers that do not fit the limit are ignored.
//
// All limits of a record's subject get a higher version, even those whose numbers the record does not set: it may have set
// them before. The version is the sum of the versions of the document, of the record and of what operators set, which
// grows if one of them grows. Processes with the old and the new record then never convert a stored state back and forth.
func (r *Rules) make(key ownKey, l *limit, record *caller.Limits) (a applied) {
	rate, version, kept := key.override, key.raised, time.Duration(0)
	accept := func(next algo.Rate, err error) error {
		if err == nil && next != rate {
			err = r.fits(l.identified, next)
		}
		if err == nil {
			rate = next
		}
		return err
	}
	if key.record != "" {
		version, kept = version+record.Changed(), r.ownHorizon(record)
		a.mistake = record.Mistake()
		if a.mistake == nil {
			a.mistake = accept(recorded(l.identified, rate, record))
		}
	}
	if key.requests > 0 {
		_ = accept(withRequests(rate, key.requests), nil)
	}
	made, _, problem := r.replace(l.identified, "limit "+l.Name, rate, version, kept)
	a.limit, a.overridden = made, rate != algo.Rate{}
	if problem != nil { // the version is too high
		a.limit, a.mistake = cmp.Or(r.own[ownKey{base: l.Limit, override: key.override}], l.Limit), errors.New(problem.String())
		a.overridden = a.limit != l.Limit
	}
	if key.percent > 0 {
		part, err := partOf(a.limit, key.percent)
		if err == nil { // most has refused other numbers
			a.limit = part
		}
	}
	return a
}

// recorded returns the numbers of a caller whose record has limits. own are those without the record.
func recorded(base *identified, own algo.Rate, record *caller.Limits) (algo.Rate, error) {
	if rate, ok := record.Rate(base.Name); ok {
		if period := base.spec.Rate.Calendar.Period; period != "" && rate.Window != 0 {
			_, window, _ := strings.Cut(rate.String(), "/")
			return own, fmt.Errorf("limit %s: got the window %s, want only a number: the limit has the period %s", base.Name, window, period)
		}
		if base.spec.Spread != (limiter.Spread{}) {
			return own, fmt.Errorf("limit %s: has lease, shards or sync_ms in the rules; a record cannot set such a limit", base.Name)
		}
		own = algo.Rate{Requests: rate.Requests, Window: rate.Window}
	}
	is := inherit(base.spec.Rate, own).Calendar
	if day := record.AnchorOf(is.Period); day != "" && day != is.Anchor {
		own.Calendar.Anchor = day
	}
	return own, nil
}

// withRequests returns numbers with another number of requests. A burst is kept if it is smaller.
func withRequests(own algo.Rate, requests int64) algo.Rate {
	if own.Burst == own.Requests || own.Burst > requests {
		own.Burst = 0
	}
	own.Requests = requests
	return own
}

// ownHorizon returns the longest time for which a store keeps a limit of a record. All limits of the
// caller's subject get this horizon, because a charge on one limit must not make the count of another
// limit expire.
func (r *Rules) ownHorizon(record *caller.Limits) (longest time.Duration) {
	for _, name := range record.Names() {
		for _, base := range r.named[name] {
			own, _ := recorded(base, algo.Rate{}, record)
			longest = max(longest, horizon(inherit(base.spec.Rate, own)))
		}
	}
	return longest
}

// fits returns an error if own are no numbers of a limit. The document bounds the size of items, so they must not grow.
func (r *Rules) fits(base *identified, own algo.Rate) error {
	if rate := inherit(base.spec.Rate, own); rate.Algorithm.Logs() && rate.Requests > base.Rate.Requests {
		return fmt.Errorf("limit %s: got %d requests, want at most %d: a sliding_log must fit its item", base.Name, rate.Requests,
			base.Rate.Requests)
	}
	if _, _, problem := r.replace(base, "limit "+base.Name, own, 0, 0); problem != nil {
		return errors.New(problem.String())
	}
	return nil
}

// CheckLimits returns an error if the limits of an API key's record do not fit the rules. The error names
// every mistake.
func (r *Rules) CheckLimits(own *caller.Limits) error {
	if err := own.Mistake(); err != nil {
		return err
	}
	set := func(base *identified) (algo.Rate, error) { return recorded(base, algo.Rate{}, own) }
	var problems []error
	for _, name := range own.Names() {
		problems = append(problems, r.check(document.PerAPIKey, name, set))
	}
	anchored := own.Anchor() == ""
	for _, list := range r.named {
		for _, base := range list {
			anchored = anchored || r.classes[base.class].countsBy(document.PerAPIKey) && own.AnchorOf(base.spec.Rate.Calendar.Period) != ""
		}
	}
	if !anchored {
		problems = append(problems, fmt.Errorf("anchor: got %s, but no limit by API key or client has a period that begins on such a day",
			own.Anchor()))
	}
	return errors.Join(problems...)
}

// CheckIntervention returns an error if the rules have no limit that an intervention can set for its caller.
func (r *Rules) CheckIntervention(i Intervention) error {
	if i.Limit == "" {
		return nil
	}
	return r.check(i.Kind, i.Limit, func(*identified) (algo.Rate, error) { return algo.Rate{Requests: i.Requests}, nil })
}

// check returns an error if a caller of a kind can not have the numbers that set returns for the limits with a name.
func (r *Rules) check(kind, name string, set func(*identified) (algo.Rate, error)) error {
	counted := r.countedBy(kind, name)
	if len(counted) == 0 {
		return fmt.Errorf("limit %s: %s", document.Shorten(name), r.unknown(kind, name))
	}
	for _, base := range counted {
		own, err := set(base)
		if err == nil {
			err = r.fits(base, own)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// UnknownLimits returns the names in a record for which the rules have no limit. Requests ignore them.
func (r *Rules) UnknownLimits(own *caller.Limits) (unknown []string) {
	for _, name := range own.Names() {
		if len(r.named[name]) == 0 {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// unknown is the message about a name that no limit has that counts by a kind of identity.
func (r *Rules) unknown(kind, name string) string {
	const most = 10
	var names []string
	for _, known := range slices.Sorted(maps.Keys(r.named)) {
		if len(r.countedBy(kind, known)) > 0 {
			names = append(names, known)
		}
	}
	if len(names) == 0 {
		return "no limit counts by " + document.Shorten(kind)
	}
	return fmt.Sprintf("no limit of this name counts by %s, want %s%s", document.Shorten(kind), quoteAll(names[:min(most, len(names))]),
		document.DidYouMean(name, names))
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

// replace creates the limit base with a caller's own numbers. It is the same limit with other numbers, so a caller keeps its
// usage when its own numbers are added or removed. version is added to that of the limit, and a store keeps the limit at
// least for the time kept. path is the place of the numbers, for messages. problem is nil if the numbers are valid.
func (r *Rules) replace(base *identified, path string, own algo.Rate, version int64, kept time.Duration) (made *limiter.Limit, note string,
	problem *Problem) {
	l := *base.Limit
	l.Rate = base.withLeast(r.options.clamp(inherit(base.spec.Rate, own)))
	l.Version, l.Horizon = l.Version+version, max(l.Horizon, kept)
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

// maxMade bounds the cached limits of callers with numbers of their own.
const maxMade = 10_000

// madeLimits caches the limits of callers with numbers of their own. A Limiter recognizes a limit by its
// pointer, so the same key must get the same pointer for each request.
type madeLimits struct {
	mu   sync.Mutex
	made *simplelru.LRU[ownKey, applied]
}

func newMadeLimits() *madeLimits {
	made, _ := simplelru.NewLRU[ownKey, applied](maxMade, nil) // NewLRU fails only for a size below 1
	return &madeLimits{made: made}
}

func (c *madeLimits) get(key ownKey, apply func() applied) applied {
	c.mu.Lock()
	defer c.mu.Unlock()
	made, ok := c.made.Get(key)
	if !ok {
		made = apply()
		c.made.Add(key, made)
	}
	return made
}

// inherit returns the numbers of an override of a limit. The override inherits the algorithm, the window
// or calendar, and the burst that it does not set. If the inherited burst is above the requests of the
// override, the burst is reduced to these requests. Without this reduction, an override that lowers a
// limit would keep the high burst.
//
// Without requests, own has only an anchor.
func inherit(limit, own algo.Rate) algo.Rate {
	if own.Requests == 0 {
		limit.Calendar.Anchor = cmp.Or(own.Calendar.Anchor, limit.Calendar.Anchor)
		return limit
	}
	own.Calendar, own.Counts, own.Regions = inheritCalendar(limit, own), limit.Counts, limit.Regions
	if own.Window == 0 && own.Calendar.Period == "" {
		own.Window = limit.Window
	}
	if own.Algorithm == "" && own.Calendar.Period == "" {
		own.Algorithm = limit.Algorithm
	}
	own.Algorithm = own.WithDefaults().Algorithm
	inherits := own.Burst == 0 && own.Algorithm.HasBurst() && limit.Algorithm.HasBurst()
	if inherits && limit.Burst <= own.Requests {
		own.Burst = limit.Burst
	}
	own.Percent = limit.Percent
	switch {
	case limit.Of == 0:
	case limit.Percent > 0 || !inherits: // the numbers apply in every tier, so they bound the count
		own.Of = own.Capacity()
	default: // tiers have bursts of their own; one can have the default, the requests
		own.Of, own.Least = own.Requests, min(limit.Least, own.Requests)
		if limit.Of < limit.Requests {
			own.Of = min(limit.Of, own.Requests)
		}
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
