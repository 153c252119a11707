package rules

import (
	"net/http"
	"slices"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// Rules decide which limits apply to a request. They are immutable and safe for concurrent use.
// Create them with Parse.
type Rules struct {
	version     int64
	defaultTier string
	tiers       map[string]bool
	rules       []rule
	index       trie
	classes     []class // the sets of identities by which limits count
	overrides   overrides
	options     Options
	named       namedLimits
	records     *recordLimits
	exempt      exemptions
	usage       bool // the last rule is the usage endpoint
	notes       []Problem
	labels      []string
	headers     []string
	costFields  []string
	split       bool // each endpoint of a caller has its own item
	spelling    *spelling
}

// PerEndpoint reports whether each endpoint of a caller has its own item, because all limits of a
// caller do not fit one item.
func (r *Rules) PerEndpoint() bool { return r.split }

// rule has the limits that apply to requests of an endpoint.
type rule struct {
	path    string // place of the rule in the document, such as "rules[2]"
	pattern pattern
	method  string // "" means any method
	shadow  bool
	cost    int64
	limits  map[string][]limit // a tier, "*" or "global", to the limits

	onError        limiter.OnError
	localProcesses int
}

// accepts reports whether the rule applies to requests of a method.
func (r *rule) accepts(method string) bool {
	return r.method == "" || r.method == method || r.method == http.MethodGet && method == http.MethodHead
}

// label returns the rule's label in metrics: its method, if it has one, and its endpoint.
func (r *rule) label() string {
	if r.method == "" {
		return r.pattern.text
	}
	return r.method + " " + r.pattern.text
}

type limit struct {
	*limiter.Limit
	class int // index in Rules.classes
	path  string
	only  string // selects the charged requests: document.OnlyUnverified, document.OnlyBadCredentials or "" for all
	cost  int64  // what a request charges at admission
}

// applies reports whether the field "only" of a limit selects requests of a caller.
func (l *limit) applies(c *caller.Caller) bool {
	switch l.only {
	case document.OnlyUnverified:
		return c.User == "" && c.APIKey == ""
	case document.OnlyBadCredentials:
		return c.Rejected
	}
	return true
}

// Version returns the version of the document or of Options.
func (r *Rules) Version() int64 { return r.version }

// Endpoint returns the endpoint, as in the document, and the method of the rule at an index below
// Len. A method of "" means any method.
func (r *Rules) Endpoint(i int) (pattern, method string) {
	return r.rules[i].pattern.text, r.rules[i].method
}

// Len returns the number of rules in the document, without the rule of the usage endpoint.
func (r *Rules) Len() int {
	if r.usage {
		return len(r.rules) - 1
	}
	return len(r.rules)
}

// LocalProcesses returns the smallest local_processes above 1 of all rules. It returns 0 if no rule
// divides its limits. In an outage, up to this number of environments stay within every divided
// limit.
func (r *Rules) LocalProcesses() int {
	least := 0
	for i := range r.rules {
		if n := r.rules[i].localProcesses; n > 1 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// Counts returns the kinds of counts of all limits, each once, except requests.
func (r *Rules) Counts() (counts []limiter.Counted) {
	r.eachLimit(func(_ *rule, _ string, l limit) {
		if l.Count.Settles() && !slices.Contains(counts, l.Count.Of) {
			counts = append(counts, l.Count.Of)
		}
	})
	return counts
}

// Notes returns notes on the document in file order: valid values whose effect may surprise the
// author.
func (r *Rules) Notes() []Problem { return r.notes }

// Labels returns each Limit.Rule once, in file order.
func (r *Rules) Labels() []string { return slices.Clone(r.labels) }

// Tiers returns the tiers that rules name, sorted.
func (r *Rules) Tiers() []string {
	tiers := make([]string, 0, len(r.tiers))
	for tier := range r.tiers {
		tiers = append(tiers, tier)
	}
	slices.Sort(tiers)
	return tiers
}

// Tier returns the tier that applies to a caller with the claimed tier. It returns the document's
// default tier if no rule names the claimed tier.
func (r *Rules) Tier(claimed string) string {
	if r.tiers[claimed] {
		return claimed
	}
	return r.defaultTier
}

// Selection is what rules select for a request.
type Selection struct {
	// Charges are the charges of the request, in file order.
	Charges []limiter.Charge
	// Tier is the tier that selected the limits.
	Tier string
	// Exemption is the exemption that applies to the request. The request then has no charges. It is
	// nil if the request is not exempt.
	Exemption *Exemption
	// Ignored is the reason why numbers in the record of the API key are ignored. The limits of the document
	// then apply. It is nil if there is no such reason.
	Ignored error
	// Usage returns the result of Own, if the request is for the usage endpoint. Otherwise it is nil.
	Usage func() (list []Listed, complete bool)
	// Malformed reports that the path has a dot segment in one of its readings, or a % without two hexadecimal
	// digits after it. Such a request must be refused.
	Malformed bool
	// Unmatched reports that no rule applies to the request. It is false for an exempt request, for OPTIONS, and
	// for a malformed path.
	Unmatched bool
}

// Select returns what the rules select for a request, and appends its charges to dst.
//
// - The request charges the limits of the rules that match any reading of its path.
// - A request with a malformed path charges, like a rejected credential, the limits by address of the rules for
// every path.
// - An OPTIONS request has no charges. HEAD counts as GET.
// - If the caller lacks an identity by which a limit counts, the request does not charge that limit.
// - A request with a rejected credential charges only limits by address.
// - A limit with the field "only" charges only the requests that this field selects.
func (r *Rules) Select(dst []limiter.Charge, q Request) Selection {
	var one [1]reading
	paths, ok := r.spelling.readings(one[:0], q.Path)
	if !ok {
		return r.selectMalformed(dst, q)
	}
	s := Selection{Charges: dst, Tier: r.Tier(q.Caller.Tier), Exemption: r.exempt.of(&q, paths)}
	var buffer [16]int
	matched := r.index.match(buffer[:0], paths...)
	if r.asksUsage(&q, matched) && r.isUsage(paths) {
		own := q // the closure gets a copy, so that q itself is not allocated on the heap for every request
		s.Usage = func() ([]Listed, bool) { return r.Own(own) }
		matched = matched[len(matched)-1:] // the last rule is the usage endpoint; the request charges only its limit
	}
	if s.Exemption == nil {
		s.Charges, s.Ignored = r.charge(dst, matched, paths, &q)
		s.Unmatched = len(s.Charges) == len(dst) && q.Method != http.MethodOptions && !slices.ContainsFunc(matched, func(i int) bool { return r.rules[i].accepts(q.Method) })
	}
	return s
}

func (r *Rules) selectMalformed(dst []limiter.Charge, q Request) Selection {
	q.Caller = caller.Caller{IP: q.Caller.IP, Rejected: true}
	s := Selection{Charges: dst, Tier: r.Tier(""), Exemption: r.exempt.of(&q, nil), Malformed: true}
	if s.Exemption == nil {
		s.Charges, s.Ignored = r.charge(dst, r.index.below, []reading{{}}, &q)
	}
	return s
}

// Charges returns the Charges of Select.
func (r *Rules) Charges(dst []limiter.Charge, method string, path Path, caller caller.Caller) []limiter.Charge {
	return r.Select(dst, Request{Method: method, Path: path, Caller: caller}).Charges
}

// charge appends the charges of a request to dst. matched are the indexes of the rules whose endpoint
// matches one of the readings of the path, and paths are the readings. charge also sets q.Caller.Tier. ignored
// is Selection.Ignored.
func (r *Rules) charge(dst []limiter.Charge, matched []int, paths []reading, q *Request) (charges []limiter.Charge, ignored error) {
	if q.Method == http.MethodOptions {
		return dst, nil
	}
	q.Caller.Tier = r.Tier(q.Caller.Tier)
	c := charger{rules: r, charges: dst, from: len(dst)}
	for _, i := range matched {
		rule := &r.rules[i]
		if !rule.accepts(q.Method) {
			continue
		}
		for i := range paths {
			if !c.reads(q, rule, paths, i) {
				continue
			}
			if limits, ok := rule.limits[q.Caller.Tier]; ok {
				c.add(q, limits)
			} else {
				c.add(q, rule.limits[document.OtherTiers])
			}
			c.add(q, rule.limits[document.Global])
		}
	}
	return c.charges, c.ignored
}

// charger collects the charges of one request. It does not contain the request, because the request would
// then be allocated on the heap.
type charger struct {
	rules    *Rules
	charges  []limiter.Charge
	from     int
	ignored  error              // see Selection
	subjects [8]limiter.Subject // subject by index of the class; set at the first use
}

// reads reports whether a reading of the path matches a rule, and sets q.path to it. A single reading matches.
func (c *charger) reads(q *Request, r *rule, paths []reading, i int) bool {
	q.path = paths[i]
	if len(paths) == 1 {
		return true
	}
	c.subjects = [8]limiter.Subject{} // a subject can contain a part of the path
	return r.pattern.matches(q.path)
}

func (c *charger) add(q *Request, limits []limit) {
	for _, l := range limits {
		class := &c.rules.classes[l.class]
		if q.Caller.Rejected && !class.byIP || !l.applies(&q.Caller) {
			continue
		}
		subject := c.subject(q, l.class)
		if subject == (limiter.Subject{}) {
			continue
		}
		limit := c.rules.overrides.of(class, &q.Caller, l.Limit)
		if q.Caller.Limits != nil {
			own := c.rules.apply(class, &q.Caller, l.Limit)
			if limit = own.limit; own.mistake != nil {
				c.ignored = own.mistake
			}
		}
		// A request is charged once on a limit that several rules share, at the highest cost.
		same := func(made limiter.Charge) bool { return made.Limit == limit && made.Subject == subject }
		if i := slices.IndexFunc(c.charges[c.from:], same); i >= 0 {
			made := &c.charges[c.from+i]
			made.Cost = max(made.Cost, l.cost)
			continue
		}
		c.charges = append(c.charges, limiter.Charge{Subject: subject, Limit: limit, Cost: l.cost})
	}
}

// subject returns the request's subject of a class. It returns the zero Subject if the caller lacks an
// identity of the class.
func (c *charger) subject(q *Request, class int) limiter.Subject {
	if class >= len(c.subjects) {
		return c.rules.classes[class].subject(q)
	}
	if c.subjects[class] == (limiter.Subject{}) {
		c.subjects[class] = c.rules.classes[class].subject(q)
	}
	return c.subjects[class]
}
