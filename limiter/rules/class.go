package rules

import (
	"slices"
	"strings"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// class is a set of identities by which limits count, from the words of the field per. A class
// contains the word "endpoint" only if this is the only word, or if each endpoint has its own item.
// For a given caller, all limits of one class are counted in one subject.
type class struct {
	key      string
	parts    []string // claims first; so a subject of "client" equals the subject of "user", "apikey" or "ip"
	families []string // one key for each kind of subject that limits of the class may have
	byIP     bool
	global   bool            // counts all callers together
	endpoint limiter.Subject // combined with the caller; the whole subject if global is true
}

// newClass returns the class of a limit. per is the limit's field "per", valid and sorted. If split
// is true, a caller has one item for each endpoint.
func newClass(per []string, method string, p pattern, split bool) class {
	c := class{byIP: slices.Contains(per, document.PerIP)}
	var identities []string
	for _, part := range per {
		switch {
		case strings.HasPrefix(part, document.PerClaim):
			c.parts = append(c.parts, part)
		case part != document.PerEndpoint && part != document.PerGlobal:
			identities = append(identities, part)
		}
	}
	c.parts = append(c.parts, identities...)
	c.key = strings.Join(c.parts, " ")
	c.families = []string{c.key}
	if slices.Contains(identities, document.PerClient) { // "client" excludes other identities
		claims := strings.TrimSuffix(c.key, document.PerClient)
		c.families = []string{claims + document.PerUser, claims + document.PerAPIKey, claims + document.PerIP}
	}
	byEndpoint, endpoint := slices.Contains(per, document.PerEndpoint), document.PerEndpoint+" "+strings.TrimSpace(method+" "+p.text)
	switch {
	case len(c.parts) == 0 && byEndpoint:
		c.global, c.key, c.endpoint = true, endpoint, limiter.Endpoint(method, p.text)
		c.families = []string{c.key}
	case len(c.parts) == 0:
		c.global, c.key, c.endpoint = true, document.PerGlobal, limiter.Global()
		c.families = []string{c.key}
	case byEndpoint && split:
		c.key, c.endpoint = c.key+" "+endpoint, limiter.Endpoint(method, p.text)
		for i := range c.families {
			c.families[i] += " " + endpoint
		}
	}
	return c
}

// subject returns the subject of a caller's request. It returns the zero Subject if the caller lacks
// one of the identities.
func (c *class) subject(caller *caller.Caller) limiter.Subject {
	s := c.who(caller)
	if c.global || s == (limiter.Subject{}) || c.endpoint == (limiter.Subject{}) {
		return s
	}
	return s.And(c.endpoint)
}

// who returns the subject without the endpoint.
func (c *class) who(caller *caller.Caller) limiter.Subject {
	if c.global {
		return c.endpoint
	}
	var s limiter.Subject
	for i, part := range c.parts {
		one := identity(part, caller)
		if one == (limiter.Subject{}) {
			return one
		}
		if i == 0 {
			s = one
		} else {
			s = s.And(one)
		}
	}
	return s
}

func identity(part string, caller *caller.Caller) limiter.Subject {
	switch part {
	case document.PerClient:
		return caller.Subject()
	case document.PerUser:
		if caller.User != "" {
			return limiter.User(caller.User)
		}
	case document.PerAPIKey:
		if caller.APIKey != "" {
			return limiter.APIKey(caller.APIKey)
		}
	case document.PerIP:
		return limiter.IP(caller.IP)
	default:
		name := strings.TrimPrefix(part, document.PerClaim)
		if value := caller.Claims[name]; value != "" {
			return limiter.Claim(name, value)
		}
	}
	return limiter.Subject{}
}

// allTiers reports whether callers of different tiers can share a subject of c. A user, an API key
// and the callers with one claim value each have one tier at a time.
func (c *class) allTiers() bool {
	return c.global || len(c.parts) == 1 && c.parts[0] == document.PerIP
}

// countsBy reports whether a subject of c may have the given kind: user, apikey, ip or claim:<name>.
func (c *class) countsBy(kind string) bool {
	return slices.Contains(c.parts, kind) || slices.Contains(c.parts, document.PerClient) && !strings.HasPrefix(kind, document.PerClaim)
}
