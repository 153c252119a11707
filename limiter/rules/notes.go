package rules

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// exampleAddress is the address of an example of a caller.
var exampleAddress = netip.MustParsePrefix("192.0.2.1/32")

func (c *compiler) note() {
	if c.doc.Shadow {
		c.doc.Note("mode", "the document enforces nothing in mode shadow")
	}
	for _, s := range c.specs {
		c.noteCount(s)
		c.noteChosen(s)
		c.noteNewCount(s)
	}
	tiers := c.rules.Tiers()
	if i, named := slices.BinarySearch(tiers, c.doc.DefaultTier); !named {
		tiers = slices.Insert(tiers, i, c.doc.DefaultTier)
	}
	for i := range c.rules.rules {
		c.noteTiers(&c.rules.rules[i], tiers)
		c.noteCallers(i)
		c.noteEndpoint(&c.rules.rules[i])
		c.noteExcept(i)
		c.noteHeaders(&c.rules.rules[i])
		if r := &c.rules.rules[i]; r.Refusal != "" && r.Refusal != c.doc.Refusal {
			c.doc.Note(document.Join(r.Path, "refusal"), "a REST API with Weir's authorizer gives every refusal the form of the document, %s",
				c.doc.Refusal)
		}
	}
	c.noteStricter()
	for i := range c.rules.exempt.list {
		c.noteExemption(&c.rules.exempt.list[i])
	}
}

// noteCount notes what a limit with the field "count" needs, and loses, if a back end that is not Weir's is behind an
// authorizer.
func (c *compiler) noteCount(s *spec) {
	switch s.Count.Of {
	case limiter.CountRequests:
	case limiter.CountCost:
		c.doc.Note(s.Path, foreign+"the back end must report the cost to the function log, and concurrent requests can exceed the limit by "+
			"what is in flight")
	case limiter.CountFailures, limiter.CountBytes:
		c.doc.Note(s.Path, foreign+"the back end or the access log must report to the function log, and concurrent requests can exceed the "+
			"limit by what is in flight")
	case limiter.CountConcurrent:
		c.noteSlots(s)
	}
}

// foreign begins the notes on a limit that an authorizer leaves to Weir's handler or layer.
const foreign = "behind an authorizer whose back end is not Weir's handler or layer, "

// These are the longest wait of API Gateway for an answer, and the longest run of a Lambda function.
const (
	longestAnswer   = 30 * time.Second
	longestFunction = 15 * time.Minute
)

// noteSlots notes a limit that counts requests in flight if a request can lose its slot or hold it too
// long.
func (c *compiler) noteSlots(s *spec) {
	c.doc.Note(s.Path, foreign+"nothing limits the requests in flight")
	switch window := s.Rate.Window; {
	case window < longestAnswer:
		c.doc.Note(s.Path, "a request that runs longer than %s loses its slot, so more than %d can be in flight; API Gateway waits up to %s "+
			"for an answer", window, s.Rate.Requests, longestAnswer)
	case window > longestFunction:
		c.doc.Note(s.Path, "if a function dies, its request holds a slot for %s; a Lambda function runs for at most %s", window, longestFunction)
	}
}

// noteChosen notes a limit whose counts a client chooses, unless a limit of what it cannot choose covers the same requests.
func (c *compiler) noteChosen(s *spec) {
	class, r := &c.rules.classes[s.class], &c.rules.rules[s.rule]
	words, own := class.chosen(), class.identities()
	if len(words) == 0 {
		return
	}
	for o := range c.covering(r) {
		for _, limits := range o.always(r, s.Tier) {
			if slices.ContainsFunc(limits, func(other limit) bool { return c.bounds(&other, s) }) {
				return
			}
		}
	}
	choice, beside := strings.Join(words, " and "), document.PerClient
	if len(own) > 0 {
		beside = strings.Join(own, " and ")
		choice += ", but not " + beside
	}
	c.doc.Note(s.Path, "a client chooses %s: each value has its own count and its own item, so this limit alone is no "+
		"protection; put a limit "+
		"by %s beside it", choice, beside)
}

// bounds reports whether the limit other bounds the limit s, which counts by values that a caller can choose.
// This is so if other counts all requests of a caller that s counts, for all such values.
func (c *compiler) bounds(other *limit, s *spec) bool {
	sum, of := &c.rules.classes[other.class], &c.rules.classes[s.class]
	if (other.Count.Of == limiter.CountConcurrent) != (s.Count.Of == limiter.CountConcurrent) {
		return false // a rate does not bound the requests in flight
	}
	if other.Mark || other.Only != "" && other.Only != s.Only {
		return false
	}
	if of.everyone() {
		return sum.key == document.PerClient || sum.key == document.PerIP
	}
	has := func(p part) bool { return slices.Contains(of.parts, p) }
	return !sum.everyone() && len(sum.chosen()) == 0 && !slices.ContainsFunc(sum.parts, func(p part) bool { return !has(p) })
}

// noteTiers notes the tiers for which a rule has no limit. tiers are the tiers that rules name and the default tier.
func (c *compiler) noteTiers(r *rule, tiers []string) {
	const most = 10
	_, others := r.tiers[document.OtherTiers]
	var missing []string
	for _, tier := range tiers {
		if _, ok := r.tiers[tier]; !ok {
			missing = append(missing, tier)
		}
	}
	if others || len(missing) == 0 || len(r.global) > 0 && len(r.tiers) == 1 {
		return
	}
	without := document.AnyOf(missing[:min(most, len(missing))])
	if len(missing) > most {
		without += fmt.Sprintf(", or %d more", len(missing)-most)
	}
	if len(tiers) > len(c.doc.Tiers) { // authors easily forget a tier that no rule names
		without += "; " + c.doc.DefaultTier + " is the default_tier, and no rule names it"
	}
	c.doc.Note(document.Join(r.Path, "limits"), "this rule has no limit for callers of tier %s", without)
}

// noteCallers notes the kinds of callers that a rule does not limit if it limits other callers of the same tier. For
// example, anonymous callers have no limit if all limits count by API key.
func (c *compiler) noteCallers(at int) {
	r := &c.rules.rules[at]
	if r.Shadow {
		return
	}
	noted := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(r.tiers)) {
		limits := r.tiers[key]
		if !slices.ContainsFunc(limits, func(l limit) bool { return l.Only == "" }) {
			continue
		}
		none, other := c.unlimited(at, c.example(r, key))
		for _, note := range []struct {
			kinds []string
			text  string
		}{{none, "a limit by client or ip would count every caller"}, {other, "only other rules do"}} {
			text := "this rule does not limit callers " + document.AnyOf(note.kinds) + "; " + note.text
			if len(note.kinds) > 0 && !noted[text] {
				noted[text] = true
				c.doc.Note(document.Join(document.Join(r.Path, "limits"), key), "%s", text)
			}
		}
	}
}

// unlimited returns the kinds of callers of a tier that have no limit at the endpoint of a rule: that no rule limits, and
// that only other rules do.
func (c *compiler) unlimited(at int, tier string) (none, other []string) {
	r := &c.rules.rules[at]
	example := []reading{{path: r.pattern.example()}}
	limited := func(who caller.Caller, rules []int) bool {
		all := charger{rules: c.rules}
		all.charge(&Request{Method: cmp.Or(r.Method, http.MethodGet), Caller: who, Header: r.exampleHeader()}, rules, example)
		return slices.ContainsFunc(all.charges, func(c limiter.Charge) bool { return !c.Limit.Shadow })
	}
	if r.excepts(example) != "" {
		return nil, nil
	}
	kinds := 0
	for _, kind := range []struct {
		words  string
		caller caller.Caller
	}{
		{"with a token", caller.Caller{User: "x"}}, {"with an API key alone", caller.Caller{APIKey: "x"}},
		{"without a credential", caller.Caller{}},
	} {
		kind.caller.Tier, kind.caller.IP = tier, exampleAddress
		switch {
		case limited(kind.caller, []int{at}):
			kinds++
		case limited(kind.caller, c.rules.index.match(nil, example...)):
			other = append(other, kind.words)
		default:
			none = append(none, kind.words)
		}
	}
	switch without := []string{"without the claim that the limit counts by"}; {
	case kinds > 0: // otherwise all limits count by claims
		return none, other
	case len(other) > 0:
		return nil, without
	default:
		return without, nil
	}
}

// noteEndpoint notes what an endpoint probably means otherwise: a regular expression, the stage of an API, and a tier.
func (c *compiler) noteEndpoint(r *rule) {
	text, path := r.pattern.text, document.Join(r.Path, "endpoint")
	if strings.ContainsAny(text, `^[]()|\`) || strings.HasSuffix(text, "$") || strings.Contains(text, ".+") {
		c.doc.Note(path, "an endpoint is no regular expression: its characters stand for themselves; {id} stands for one segment, and /* for "+
			"everything below")
	}
	if len(r.pattern.segments) > 1 && slices.Contains(stages, r.pattern.segments[0]) {
		c.doc.Note(path, "if %s is the stage of the API, leave it out: rules match paths without the stage", r.pattern.segments[0])
	}
	if _, named := r.tiers[anonymousTier]; named && c.doc.DefaultTier != anonymousTier {
		c.doc.Note(document.Join(document.Join(r.Path, "limits"), anonymousTier),
			"a caller without a credential has the default_tier %s; a limit "+
				"with \"only\": \"unverified\" is for such callers", c.doc.DefaultTier)
	}
}

const anonymousTier = "anonymous"

// stages are common names of stages.
var stages = []string{"$default", "dev", "development", "prod", "production", "stage", "staging", "test"}

// noteHeaders notes that a client writes the fields that select the requests of a rule.
func (c *compiler) noteHeaders(r *rule) {
	path := document.Join(r.Path, "headers")
	if r.byCall() {
		c.doc.Note(path, "behind an authorizer, which sees no body, the MCP server must compare %s with the body; elsewhere Weir does",
			r.fieldNames())
		if r.Method != "" {
			c.doc.Note(document.Join(r.Path, "method"), "a call by another method than %s counts only on other rules; leave the field out, unless "+
				"the MCP server refuses such a call", r.Method)
		}
	}
	for _, f := range r.Headers {
		if !isCall(f.Name) {
			c.doc.Note(path, "a client chooses %s: a request with another value counts only on other rules", f.Name)
		}
	}
}

// noteExcept notes the endpoints that a rule leaves out and that no other rule counts.
func (c *compiler) noteExcept(at int) {
	r := &c.rules.rules[at]
	for i, p := range r.except {
		example := []reading{{path: p.example()}}
		counted := slices.ContainsFunc(c.rules.index.match(nil, example...), func(other int) bool {
			o := &c.rules.rules[other]
			return other != at && !o.Shadow && (o.Method == "" || o.Method == r.Method) && len(o.Headers) == 0 && o.excepts(example) == ""
		})
		if !counted && c.rules.exempt.endpoint(example) == len(c.rules.exempt.list) {
			c.doc.Note(exceptPath(r, i), "no other rule counts %s", document.Shorten(p.text))
		}
	}
}

// example returns a tier whose callers get the limits under a key of a rule. For "*" and "global", this
// is a tier that the rule does not name, if there is one.
func (c *compiler) example(r *rule, key string) string {
	if key != document.OtherTiers && key != document.Global {
		return key
	}
	for _, tier := range c.doc.Tiers {
		if _, named := r.tiers[tier]; !named {
			return tier
		}
	}
	return c.doc.DefaultTier
}
