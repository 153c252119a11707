package rules

import (
	"slices"
	"strings"

	"github.com/weir-limits/weir/limiter"
)

// class is what a limit counts by: the parts of its per, the endpoint left out unless
// nothing else is there. Limits of one class are in one subject for a given caller.
type class struct {
	key      string
	parts    []string
	byIP     bool
	global   bool // counts all callers together
	endpoint limiter.Subject
}

// The words of per.
const (
	perClient   = "client"
	perUser     = "user"
	perAPIKey   = "apikey"
	perIP       = "ip"
	perEndpoint = "endpoint"
	perGlobal   = "global"
	perClaim    = "claim:"
)

// newClass returns the class of a per, which is valid and sorted.
func newClass(per []string, method string, p pattern) class {
	c := class{byIP: slices.Contains(per, perIP)}
	for _, part := range per {
		if part != perEndpoint && part != perGlobal {
			c.parts = append(c.parts, part)
		}
	}
	c.key = strings.Join(c.parts, " ")
	if len(c.parts) > 0 {
		return c
	}
	c.global, c.key, c.endpoint = true, perGlobal, limiter.Global()
	if slices.Contains(per, perEndpoint) {
		c.key, c.endpoint = perEndpoint+" "+method+" "+p.text, limiter.Endpoint(method, p.text)
	}
	return c
}

// subject returns who is counted when caller sends a request; the zero subject if
// caller lacks one of the identities.
func (c *class) subject(caller *limiter.Caller) limiter.Subject {
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

func identity(part string, caller *limiter.Caller) limiter.Subject {
	switch part {
	case perClient:
		return caller.Subject()
	case perUser:
		if caller.User != "" {
			return limiter.User(caller.User)
		}
	case perAPIKey:
		if caller.APIKey != "" {
			return limiter.APIKey(caller.APIKey)
		}
	case perIP:
		return limiter.IP(caller.IP)
	default:
		name := strings.TrimPrefix(part, perClaim)
		if value := caller.Claims[name]; value != "" {
			return limiter.Claim(name, value)
		}
	}
	return limiter.Subject{}
}

// countsBy reports whether the subject of c can be one of a kind: user, apikey, ip or
// claim:<name>.
func (c *class) countsBy(kind string) bool {
	return slices.Contains(c.parts, kind) || c.key == perClient && slices.Contains(c.families(), kind)
}

// families returns the keys of the subjects in which limits of c can be: those of a
// client are in the user's, the API key's or the address's.
func (c *class) families() []string {
	if c.key == perClient {
		return []string{perUser, perAPIKey, perIP}
	}
	return []string{c.key}
}
