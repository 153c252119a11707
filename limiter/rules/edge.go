package rules

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// Edge is what a CDN in front of an API needs to know of the rules, in order to refuse the requests of callers that are
// over a limit (limiter.Limit.Edge).
type Edge struct {
	Limits []EdgeLimit // in file order
	// Pass are the endpoints whose requests no such limit counts: the exempt ones, and the usage endpoint.
	Pass []string
	// Credentials reports that the rules exempt users or API keys. Then requests with a credential pass, also with an
	// invented one.
	Credentials bool
}

// EdgeLimit is a limit whose callers a CDN in front can refuse.
type EdgeLimit struct {
	Path string
	// Wait is how long a caller that never stops waits between two admissions, or two bursts of them. A CDN can refuse only
	// for the rest of a wait.
	Wait time.Duration
}

// Edge returns what a CDN in front needs to know.
func (r *Rules) Edge() (e Edge) {
	for i := range r.rules {
		for _, l := range r.rules[i].global {
			if l.shared.Edge && l.notEdge == "" {
				e.Limits = append(e.Limits, EdgeLimit{l.Path, floodWait(l.shared.Limit)})
			}
		}
	}
	for _, one := range r.exempt.list {
		switch one.Kind {
		case document.PerEndpoint:
			e.Pass = append(e.Pass, one.Value)
		case document.PerUser, document.PerAPIKey:
			e.Credentials = true
		}
	}
	if r.usage {
		e.Pass = append(e.Pass, r.rules[len(r.rules)-1].pattern.text)
	}
	return e
}

func floodWait(l *limiter.Limit) time.Duration {
	if algo.KeepsInstants(l.Machine()) || l.Rate.Algorithm.Resets() { // all requests leave the count together
		return cmp.Or(l.Rate.Calendar.Longest(), l.Rate.Window)
	}
	return l.Rate.Window / time.Duration(l.Rate.Requests)
}

// ExemptsPart reports whether an address of a network is exempt.
func (r *Rules) ExemptsPart(network netip.Prefix) bool {
	return slices.ContainsFunc(r.exempt.list, func(e Exemption) bool { return e.Kind == document.PerIP && e.Network.Overlaps(network) })
}

// EdgeReason is why a CDN in front cannot refuse requests for some limits.
type EdgeReason struct {
	Reason string
	Paths  []string // of the limits, in file order
}

// EdgeReasons returns the reasons for the limits that Edge does not have.
func (r *Rules) EdgeReasons() (list []EdgeReason) {
	for l := range r.limits() {
		if l.shared.Edge || l.rule >= r.Len() {
			continue
		}
		i := slices.IndexFunc(list, func(e EdgeReason) bool { return e.Reason == l.notEdge })
		if i < 0 {
			i, list = len(list), append(list, EdgeReason{Reason: l.notEdge})
		}
		list[i].Paths = append(list[i].Paths, l.Path)
	}
	return list
}

// edgeReason returns why a rule does not charge this limit for every request of an address or an API key; "" if it does.
func (s *spec) edgeReason(r *rule) string {
	switch {
	case r.NoEdge:
		return `the rule has "edge": false`
	case r.Shadow:
		return "the rule is in shadow mode"
	case r.Endpoint != "*":
		return "the rule is not for all endpoints (*)"
	case r.Method != "":
		return "the rule is for one method"
	case s.Tier != document.Global:
		return `the limit is not under "global"`
	case len(s.Per) != 1 || s.Per[0] != document.PerIP && s.Per[0] != document.PerAPIKey:
		return `the limit does not count "per" one of ip and apikey`
	case s.Only != "":
		return `the limit has "only"`
	case s.Mark:
		return "the limit is in mode mark"
	case s.Count.Of != limiter.CountRequests:
		return `the limit has "count"`
	case s.Rate.Regions != (algo.Regions{}):
		return "regions share the limit" // share of another region can end the wait of a refusal
	}
	return ""
}

// markEdge sets Edge of limits. It leaves out a count that a rule charges with more than 1, because the wait after a
// refusal then depends on the request. It also leaves out a limit with an override for addresses, because the addresses of
// a network can then have different waits. A rule with "edge": false excludes its limits from other rules too. A CDN
// cannot find out whether a request with an API key is exempt for another reason, or which spellings of an exempt path the
// rules know if they ignore suffixes.
func (c *compiler) markEdge() {
	e := c.rules.Edge()
	callers := slices.ContainsFunc(c.rules.exempt.list, func(e Exemption) bool { return e.Kind != document.PerEndpoint })
	excluded := map[limiter.ID]bool{}
	for _, s := range c.specs {
		if c.rules.rules[s.rule].NoEdge {
			excluded[s.id()] = true
		}
	}
	for _, s := range c.specs {
		known := c.known[limitKey{s.id(), c.rules.rules[s.rule].Shadow}]
		if known == nil {
			continue
		}
		switch s.notEdge = s.edgeReason(&c.rules.rules[s.rule]); {
		case s.notEdge != "":
		case excluded[s.id()]:
			s.notEdge = `another rule with this limit has "edge": false`
		case known.cost != 1:
			s.notEdge = "a request can cost more than 1"
		case slices.ContainsFunc(c.doc.Overrides, func(o document.Override) bool { return o.Name == s.Name && o.Kind == document.PerIP }):
			s.notEdge = "an override changes the limit of addresses"
		case callers && s.Per[0] == document.PerAPIKey:
			s.notEdge = "the rules exempt users, API keys or addresses, which a count of API keys cannot see"
		case c.rules.spelling.IgnoreSuffix && len(e.Pass) > 0:
			s.notEdge = "the rules ignore suffixes, and exempt endpoints or have a usage endpoint"
		default:
			known.Edge = true
		}
	}
}
