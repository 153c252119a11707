package rules

import (
	"fmt"
	"strings"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/meter"
)

// Explanation explains to operators why a request has its charges.
type Explanation struct {
	// Selection is what Select returns. If it is Malformed, Matches are the rules for every path. If it has a block, no rule
	// is matched.
	Selection
	// Readings are the readings of the path. A plain path has one. A malformed path has none.
	Readings []string
	// Matches are the rules whose endpoint matches a reading of the path, in file order.
	Matches []Match
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
	// Shared reports whether regions share the limit, also if the rules were parsed for one region.
	Shared bool
	// AcrossTiers and UpTo are the fields of the limit: whether its tiers keep one count, and whether each tier may use a part.
	AcrossTiers, UpTo bool
	// Overridden reports whether an override or the record of an API key sets the numbers of the limit in
	// Charge.
	Overridden bool
	// From is where the bodies of a request and its answer have the cost or the reserve; nil if they have neither.
	From *meter.Source
	// Ignored is the reason why the numbers of the API key's record do not apply; see Selection.
	Ignored error
	// Reason is the reason why the rule does not charge the limit, for example because an earlier rule has already
	// charged it. It is "" if the limit is charged.
	Reason string
}

func (r *Rules) list(l *limit, s limiter.Subject, own applied) Listed {
	rule := &r.rules[l.rule]
	return Listed{
		Path: l.Path, Tier: l.Tier, Endpoint: rule.Endpoint, Method: rule.Method,
		Charge: limiter.Charge{Subject: s, Limit: own.limit, Cost: l.cost}, Overridden: own.overridden, Ignored: own.mistake,
		Shared: l.spec.Rate.Regions != algo.Regions{}, AcrossTiers: l.AcrossTiers, UpTo: l.UpTo != nil, From: l.From,
	}
}

// Limits returns the limits of all rules in file order, with the numbers of the document and without subjects.
func (r *Rules) Limits() (list []Listed) {
	for l := range r.limits() {
		list = append(list, r.list(l, limiter.Subject{}, applied{limit: l.Limit}))
	}
	return list
}

// Explain returns the rules whose endpoint matches a request. For each limit it returns the charge or
// the reason why the limit does not apply. It explains the result of Select.
func (r *Rules) Explain(q Request) Explanation {
	var e Explanation
	e.Selection = r.choose(nil, &q, &e)
	return e
}

func (e *Explanation) read(paths []reading) {
	for _, path := range paths {
		e.Readings = append(e.Readings, path.path)
	}
}

// add adds a rule, and why it does not apply; "" if it does.
func (e *Explanation) add(r *rule, reason string) {
	e.Matches = append(e.Matches, Match{Path: r.Path, Endpoint: r.Endpoint, Method: r.Method, Reason: reason})
}

func (e *Explanation) match(r *rule, q *Request, exemption *Exemption, paths []reading) {
	reason := ""
	switch {
	case exemption != nil:
		reason = exemption.Path + " exempts the request"
	case !r.accepts(q.Method):
		reason = "applies to " + r.Method
	case r.excepts(paths) != "":
		reason = "leaves out " + r.excepts(paths)
	case !selects(r, q):
		reason = "applies to requests with other header fields: " + r.fieldNames()
	case len(r.of(q.Caller.Tier)[0]) == 0 && (len(r.global) == 0 || len(r.tiers) > 1):
		reason = fmt.Sprintf("has no limit for tier %s or for *", q.Caller.Tier)
	}
	e.add(r, reason)
}

func selects(r *rule, q *Request) bool {
	selected, _ := r.selects(q)
	return selected
}

func (r *rule) fieldNames() string {
	var names []string
	for _, f := range r.Headers {
		names = append(names, f.Name)
	}
	return strings.Join(names, " and ")
}

// skip adds a limit that the request does not charge to the last rule.
func (e *Explanation) skip(q *Request, r *Rules, l *limit, why string) {
	if why == skippedIdentity {
		why = "counts by " + r.classes[l.class].lacks(q) + ", which the caller lacks"
	}
	listed := r.list(l, limiter.Subject{}, applied{limit: l.Limit})
	listed.Charge.Cost, listed.Reason = 0, why
	e.list(listed)
}

// list adds a limit to the last rule.
func (e *Explanation) list(l Listed) {
	last := &e.Matches[len(e.Matches)-1]
	last.Limits = append(last.Limits, l)
}

// lacks returns the first identity of the class that the caller lacks; "" if there is none.
func (c *class) lacks(q *Request) string {
	words := make([]string, len(c.parts))
	for i := range c.parts {
		words[i] = c.parts[i].word
		if c.part(i, q) == (limiter.Subject{}) {
			return words[i]
		}
	}
	return strings.Join(words, " and ")
}
