package rules

import (
	_ "embed"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// Rules decide which limits apply to a request. They are immutable and safe for concurrent use.
// Create them with Parse.
type Rules struct {
	version     int64
	defaultTier string
	// tiers are the declared tiers or, without a declaration, those that rules name, with their places in the document
	tiers     map[string]int
	declared  bool
	rules     []rule
	index     trie
	classes   []class                          // the sets of identities by which limits count
	overrides identities[map[string]algo.Rate] // the numbers of individual callers, by the name of the limit
	own       map[ownKey]*limiter.Limit        // the limits with these numbers
	options   Options
	named     map[string][]*identified // the limits by name, in file order
	made      *madeLimits
	exempt    exemptions
	usage     bool // the last rule is the usage endpoint
	calls     bool // a rule depends on the body of an MCP request
	notes     []Problem
	labels    []string
	counts    []limiter.Counted
	split     bool // each endpoint of a caller has its own item
	spelling  *spelling
	refusal   string // of the document

	interventions *Interventions
}

// PerEndpoint reports whether each endpoint of a caller has its own item, because all limits of a
// caller do not fit one item.
func (r *Rules) PerEndpoint() bool { return r.split }

// rule has the limits that apply to requests of an endpoint.
type rule struct {
	*document.Rule
	pattern pattern
	except  []pattern          // endpoints inside pattern that the rule leaves out
	call    bool               // the body of an MCP request decides
	tiers   map[string][]limit // a tier, "*" or "global", to the limits
	global  []limit            // tiers["global"]
}

// of returns the limits for callers of a tier, and the limits under "global". A tier that the rule does not name gets
// the limits under "*".
func (r *rule) of(tier string) [2][]limit {
	own, named := r.tiers[tier]
	if !named {
		own = r.tiers[document.OtherTiers]
	}
	return [2][]limit{own, r.global}
}

// accepts reports whether the rule applies to requests of a method.
func (r *rule) accepts(method string) bool {
	return r.Method == "" || r.Method == method || r.Method == http.MethodGet && method == http.MethodHead
}

// excepts returns the endpoint by which the rule leaves out a request; "" if it does not. All readings of the path must be
// left out: otherwise another spelling would be a way around the rule.
func (r *rule) excepts(paths []reading) (endpoint string) {
	for i := range paths {
		at := slices.IndexFunc(r.except, func(p pattern) bool { return paths[i].path != "" && p.matches(paths[i]) })
		if at < 0 {
			return ""
		}
		endpoint = r.except[at].text
	}
	return endpoint
}

// label returns the rule's label in metrics: its method, if it has one, and its endpoint.
func (r *rule) label() string {
	return strings.TrimSpace(r.Method + " " + r.pattern.text)
}

type limit struct {
	*limiter.Limit
	*spec
	identified *identified
	cost       int64 // what a request charges at admission
}

// Version returns the version of the document or of Options.
func (r *Rules) Version() int64 { return r.version }

// Endpoint returns the endpoint, as in the document, and the method of the rule at an index below
// Len. A method of "" means any method.
func (r *Rules) Endpoint(i int) (pattern, method string) {
	return r.rules[i].Endpoint, r.rules[i].Method
}

// Len returns the number of rules in the document, without the rule of the usage endpoint.
func (r *Rules) Len() int {
	if r.usage {
		return len(r.rules) - 1
	}
	return len(r.rules)
}

// Enforces reports whether the document has a limit that refuses requests.
func (r *Rules) Enforces() bool {
	for l := range r.limits() {
		if l.rule < r.Len() && !l.Shadow && !l.Mark {
			return true
		}
	}
	return false
}

// CaseMatters reports whether a path in upper case can have other limits than the same path in lower case.
func (r *Rules) CaseMatters() bool {
	return r.spelling != nil && !r.spelling.IgnoreCase && slices.ContainsFunc(r.rules,
		func(rule rule) bool { return rule.pattern.text != "*" })
}

// These are the forms of the body of a refusal; see package httplimit.
const (
	RefusalProblem = document.RefusalProblem
	RefusalOpenAI  = document.RefusalOpenAI
	RefusalJSONRPC = document.RefusalJSONRPC
)

// Reads reports whether a rule selects requests by the header field with the canonical name, or counts by it.
func (r *Rules) Reads(name string) bool {
	return slices.ContainsFunc(r.rules, func(one rule) bool {
		return slices.ContainsFunc(one.Headers, func(f document.Field) bool { return f.Name == name })
	}) || slices.ContainsFunc(r.classes, func(c class) bool {
		return slices.ContainsFunc(c.parts, func(p part) bool { return p.kind == document.PerHeader && p.name == name })
	})
}

// Refusal returns the form of the document's refusals: RefusalProblem, RefusalOpenAI or RefusalJSONRPC.
func (r *Rules) Refusal() string { return r.refusal }

// refusalOf returns the form of the refusal of a request that rules match: of the first rule with one, or else of the document.
func (r *Rules) refusalOf(q *Request, matched []int) string {
	for _, i := range matched {
		if rule := &r.rules[i]; rule.Refusal != "" && rule.accepts(q.Method) {
			return rule.Refusal
		}
	}
	return r.refusal
}

// LocalProcesses returns the smallest local_processes above 1 of all rules. It returns 0 if no rule
// divides its limits. In an outage, up to this number of environments stay within every divided
// limit.
func (r *Rules) LocalProcesses() int {
	least := 0
	for i := range r.rules {
		if n := r.rules[i].LocalProcesses; n > 1 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// Counts returns the kinds of counts of all limits, each once, except requests.
func (r *Rules) Counts() []limiter.Counted { return r.counts }

// Tiers returns the declared tiers, sorted. Without a declaration, it returns the tiers that rules name.
func (r *Rules) Tiers() []string { return slices.Sorted(maps.Keys(r.tiers)) }

// Tier returns the tier that applies to a caller with the claimed tier. It returns the document's
// default tier if Tiers does not have the claimed tier.
func (r *Rules) Tier(claimed string) string {
	if _, ok := r.tiers[claimed]; ok {
		return claimed
	}
	return r.defaultTier
}

// TierOf returns the tier that applies to a caller: the first tier of the document that is in c.Tiers, or else Tier of
// c.Tier.
func (r *Rules) TierOf(c *caller.Caller) string {
	first, place := c.Tier, len(r.tiers)
	for _, tier := range c.Tiers {
		if at, ok := r.tiers[tier]; ok && at < place {
			first, place = tier, at
		}
	}
	return r.Tier(first)
}

// CheckTier returns an error if the rules have tiers, but not this one. A caller of such a tier gets the limits
// of the default tier.
func (r *Rules) CheckTier(tier string) error {
	if tiers := r.Tiers(); len(tiers) > 0 && r.Tier(tier) != tier {
		return fmt.Errorf("tier: got %q, %s%s; default_tier %s decides", document.Shorten(tier), document.WantTier(tiers, r.declared),
			document.DidYouMean(tier, tiers), r.defaultTier)
	}
	return nil
}

// Notes returns notes on the document in file order: valid values whose effect may surprise the
// author.
func (r *Rules) Notes() []Problem { return r.notes }

// Labels returns each Limit.Rule once, in file order.
func (r *Rules) Labels() []string { return slices.Clone(r.labels) }

// limits returns the limits of all rules, in file order.
func (r *Rules) limits() iter.Seq[*limit] {
	return func(yield func(*limit) bool) {
		for i := range r.rules {
			tiers := r.rules[i].tiers
			for _, tier := range slices.Sorted(maps.Keys(tiers)) {
				for j := range tiers[tier] {
					if !yield(&tiers[tier][j]) {
						return
					}
				}
			}
		}
	}
}

// Schema is the JSON Schema (draft 2020-12) of a rules document. An editor uses it to show mistakes
// while the author types: most of the mistakes that Parse finds.
//
//go:embed schema.json
var Schema []byte
