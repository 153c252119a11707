package rules

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// Explanation explains to operators why a request has its charges.
type Explanation struct {
	// Readings are the readings of the path. A plain path has one. A malformed path has none.
	Readings []string
	// Malformed is Selection.Malformed. Matches are then the rules for every path.
	Malformed bool
	// Tier is the tier of the caller, or the default tier.
	Tier string
	// Matches are the rules whose endpoint matches a reading of the path, in file order.
	Matches []Match
	// Charges are the charges that [Rules.Charges] returns.
	Charges []limiter.Charge
	// Exemption is the exemption that applies to the request; nil if the request is not exempt.
	Exemption *Exemption
}

// Match is a rule whose endpoint matches a request.
type Match struct {
	Path     string // place of the rule in the document, such as "rules[2]"
	Endpoint string
	Method   string // "" means any method
	// Reason is the reason why the rule, or a part of it, does not apply. It is "" if the rule applies.
	Reason string
	// Limits are the rule's limits for the caller's tier or for "*", and its limits under "global".
	Limits []Listed
}

// Listed is a limit with its place in the document.
type Listed struct {
	Path string // place in the document, such as "rules[2].limits.free"
	Tier string // key of the limit in the rule: a tier, "*" or "global"
	// Endpoint and Method are the endpoint and the method of the rule. A Method of "" means any method.
	Endpoint, Method string
	// Charge has no Subject if the limit is skipped.
	Charge limiter.Charge
	// Overridden reports whether an override or the record of an API key sets the numbers of the limit in
	// Charge.
	Overridden bool
	// Ignored is the reason why the numbers of the API key's record do not apply; see Selection.
	Ignored error
	// Reason is the reason why the request does not charge the limit, or not again if an earlier rule
	// shares it. It is "" if the limit is charged.
	Reason string
}

// Explain returns the rules whose endpoint matches a request. For each limit it returns the charge or
// the reason why the limit does not apply. It explains the result of Select.
func (r *Rules) Explain(q Request) Explanation {
	paths, ok := r.spelling.readings(nil, q.Path)
	if !ok {
		paths, q.Caller = nil, caller.Caller{IP: q.Caller.IP, Rejected: true}
	}
	q.Caller.Tier = r.Tier(q.Caller.Tier)
	e := Explanation{Malformed: !ok, Tier: q.Caller.Tier, Exemption: r.exempt.of(&q, paths)}
	for _, path := range paths {
		e.Readings = append(e.Readings, path.path)
	}
	matched := r.index.match(nil, paths...)
	if !ok {
		matched, paths = r.index.below, []reading{{}}
	}
	c := charger{rules: r}
	for _, i := range matched {
		rule := &r.rules[i]
		if e.Exemption != nil {
			reason := e.Exemption.Path + " exempts the request"
			e.Matches = append(e.Matches, Match{Path: rule.path, Endpoint: rule.pattern.text, Method: rule.method, Reason: reason})
			continue
		}
		e.Matches = append(e.Matches, c.explain(&q, rule, paths))
	}
	e.Charges = c.charges
	return e
}

// explain adds the charges of a rule whose endpoint matches one of the readings of the path.
func (c *charger) explain(q *Request, r *rule, paths []reading) Match {
	m := Match{Path: r.path, Endpoint: r.pattern.text, Method: r.method}
	switch {
	case q.Method == http.MethodOptions:
		m.Reason = "OPTIONS is never limited"
		return m
	case !r.accepts(q.Method):
		m.Reason = "applies to " + r.method
		return m
	}
	key := q.Caller.Tier
	if _, ok := r.limits[key]; !ok {
		key = document.OtherTiers
	}
	if _, global := r.limits[document.Global]; len(r.limits[key]) == 0 && (!global || len(r.limits) > 1) {
		m.Reason = fmt.Sprintf("has no limit for tier %s or for *", q.Caller.Tier)
	}
	first := true
	for i := range paths {
		if !c.reads(q, r, paths, i) {
			continue
		}
		for _, key := range []string{key, document.Global} {
			for _, l := range r.limits[key] {
				before := len(c.charges)
				if listed := c.list(q, r, key, l); first || len(c.charges) > before { // another reading can have another subject
					m.Limits = append(m.Limits, listed)
				}
			}
		}
		first = false
	}
	return m
}

// onlyWords describes, for each value of the field "only", the requests that the limit charges.
var onlyWords = map[string]string{
	document.OnlyUnverified:     "without a verified user or API key",
	document.OnlyBadCredentials: "with a bad credential",
}

// list adds the charge of a limit, or the reason why the request does not charge the limit.
func (c *charger) list(q *Request, r *rule, key string, l limit) Listed {
	class, before := &c.rules.classes[l.class], len(c.charges)
	c.add(q, []limit{l})
	subject := c.subject(q, l.class)
	listed := Listed{Path: l.path, Tier: key, Endpoint: r.pattern.text, Method: r.method}
	switch {
	case q.Caller.Rejected && !class.byIP:
		listed.Charge.Limit, listed.Reason = l.Limit, "only limits by ip charge a request with a bad credential"
		return listed
	case !l.applies(&q.Caller):
		listed.Charge.Limit, listed.Reason = l.Limit, "not charged: only requests "+onlyWords[l.only]
		return listed
	case subject == (limiter.Subject{}):
		listed.Charge.Limit, listed.Reason = l.Limit, "counts by "+class.lacks(q)+", which the caller lacks"
		return listed
	case len(c.charges) == before:
		listed.Reason = "shares its count with an earlier limit; the request is charged once, at the higher cost"
	}
	own := c.rules.apply(class, &q.Caller, l.Limit)
	listed.Charge, listed.Overridden, listed.Ignored = limiter.Charge{Subject: subject, Limit: own.limit, Cost: l.cost}, own.overridden, own.mistake
	return listed
}

// lacks returns the first identity of the class that the caller lacks; "" if there is none.
func (c *class) lacks(q *Request) string {
	words := make([]string, len(c.parts))
	for i := range c.parts {
		words[i] = c.parts[i].word
		if c.parts[i].subject(q) == (limiter.Subject{}) {
			return words[i]
		}
	}
	return strings.Join(words, " and ")
}

// Values contains the identities, the method, the header fields and the path parameters of a subject.
type Values struct {
	Caller     caller.Caller
	Method     string
	Header     http.Header
	Parameters map[string]string // parameters of the path, by name
}

// Of returns the limits that count in subject, for every path and tier, in file order. v must contain the values in
// subject, because they select the overrides. A limit that several rules share appears once. If each endpoint of the
// caller has its own item, the list includes these limits, and Charge.Subject identifies the item.
func (r *Rules) Of(v Values, subject limiter.Subject) []Listed {
	q := Request{Caller: v.Caller, Method: v.Method, Header: v.Header, parameters: v.Parameters}
	if q.parameters == nil {
		q.parameters = map[string]string{}
	}
	var list []Listed
	seen := map[*limiter.Limit]bool{}
	counts := make([]limiter.Subject, len(r.classes)) // the zero Subject for a class that does not count in subject
	for i := range r.classes {
		if s := r.classes[i].subject(&q); s == subject || r.classes[i].who(&q) == subject {
			counts[i] = s
		}
	}
	for i := range r.rules {
		rule := &r.rules[i]
		for _, key := range slices.Sorted(maps.Keys(rule.limits)) {
			for _, l := range rule.limits[key] {
				if counts[l.class] == (limiter.Subject{}) || seen[l.Limit] {
					continue
				}
				seen[l.Limit] = true
				own := r.apply(&r.classes[l.class], &v.Caller, l.Limit)
				list = append(list, Listed{Path: l.path, Tier: key, Endpoint: rule.pattern.text, Method: rule.method, Charge: limiter.Charge{Subject: counts[l.class], Limit: own.limit, Cost: l.cost}, Overridden: own.overridden, Ignored: own.mistake})
			}
		}
	}
	return list
}
