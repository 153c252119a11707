package rules

import (
	"slices"

	"github.com/weir-limits/weir/limiter/rules/document"
)

// Exemption selects requests that no rule counts. It does not affect authentication.
type Exemption struct {
	document.Exemption
	pattern pattern // of an endpoint
}

// exemptions finds the exemption of a request. The zero value exempts nothing.
type exemptions struct {
	list      []Exemption     // exemptions in file order
	callers   identities[int] // index in list of the exemption of a user, an API key or a network
	endpoints trie
}

// of returns the first exemption that applies to a request. It returns nil if none applies. paths are the
// readings of the request's path. An exemption of an endpoint applies only if all readings are exempt. For a request
// with a bad credential, only an exemption of its address applies. Otherwise, a client could guess
// credentials at an exempt endpoint without a limit.
func (e *exemptions) of(q *Request, paths []reading) *Exemption {
	first, c := len(e.list), &q.Caller
	e.callers.known(c, func(i int) { first = min(first, i) })
	if !c.Rejected {
		first = min(first, e.endpoint(paths))
	}
	if first == len(e.list) {
		return nil
	}
	return &e.list[first]
}

// endpoint returns the index of the first exemption whose endpoint matches a path. It returns the length of the
// list if no exemption matches one of the paths.
func (e *exemptions) endpoint(paths []reading) int {
	first := len(e.list)
	for _, path := range paths {
		var matched [16]int
		at := e.endpoints.match(matched[:0], path)
		if len(at) == 0 {
			return len(e.list)
		}
		first = min(first, at[0])
	}
	return first
}

// Exemptions returns the names of the exemptions, each once and in file order.
func (r *Rules) Exemptions() []string {
	var names []string
	for _, e := range r.exempt.list {
		if !slices.Contains(names, e.Name) {
			names = append(names, e.Name)
		}
	}
	return names
}

// ExemptEndpoints returns the exemptions of endpoints, in file order.
func (r *Rules) ExemptEndpoints() (list []Exemption) {
	for _, e := range r.exempt.list {
		if e.Kind == document.PerEndpoint {
			list = append(list, e)
		}
	}
	return list
}

func (c *compiler) exempt() {
	e := &c.rules.exempt
	endpoints := map[string]int{}
	for i, d := range c.doc.Exempt {
		one := Exemption{Exemption: d}
		var earlier int
		var twice bool
		if d.Kind == document.PerEndpoint {
			one.pattern = c.pattern(document.Join(d.Path, "endpoint"), d.Value, onePath)
			earlier, twice = endpoints[d.Value]
			if !twice {
				endpoints[d.Value] = i
				e.endpoints.add(one.pattern, i)
			}
		} else {
			earlier, twice = e.callers.get(d.Identity)
			if !twice {
				e.callers.set(d.Identity, i)
			}
		}
		if twice {
			c.doc.Report(d.Path, "exempts the same requests as %s", c.doc.Exempt[earlier].Path)
		}
		e.list = append(e.list, one)
	}
}

// noteExemption adds a note on an exemption that applies to no request, or to more requests than its
// author probably intended.
func (c *compiler) noteExemption(e *Exemption) {
	const defaultIPv6Bits = 64
	switch {
	case e.Kind == document.PerIP && e.Network.Bits() == 0:
		c.doc.Note(e.Path, "exempts every address of its family")
	case e.Kind == document.PerIP && e.Network.Bits() > defaultIPv6Bits:
		c.doc.Note(e.Path, "IPv6 callers count by network: the exemption applies only if IPV6_BITS is at least %d", e.Network.Bits())
	case e.Kind == document.PerEndpoint:
		for i := range c.rules.rules {
			if r := &c.rules.rules[i]; e.pattern.contains(r.pattern) {
				c.doc.Note(r.Path, "%s exempts every request of this rule", e.Path)
			}
		}
	}
}
