package rules

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// A class is a set of words of the field per, such as user and endpoint. It determines the subject in which a limit
// counts a request, and thus the item in the store. All limits of one class count a request in the same subject. If
// per has other words than "endpoint", the class has the word "endpoint" only if each endpoint of a caller has its
// own item.
type class struct {
	key string
	// parts has "user", "apikey", "ip" and "client" last. Therefore, a limit per client and a limit per
	// user count a user in the same subject.
	parts []part
	// families names the kinds of subject in which this class counts. Its only element is key, unless per has
	// "client". Then its elements are the keys of "user", "apikey" and "ip".
	families []string
	byIP     bool
	claims   bool // per has a claim
	global   bool // all callers have the same subject
	// endpoint is added to the caller's subject. If global is true, endpoint is the whole subject.
	endpoint limiter.Subject
}

// part is a word of the field per.
type part struct {
	word string
	kind string // PerClaim, PerPath, PerHeader, or the word
	name string // name of the claim, the parameter or the header field; "" for other words
	at   int    // for a parameter: index of its segment in the path
}

// newClass returns the class of a limit. per is the limit's field "per", valid and sorted. If split
// is true, a caller has one item for each endpoint.
func newClass(per []string, method string, p pattern, split bool) class {
	c := class{byIP: slices.Contains(per, document.PerIP)}
	var words, identities []string
	for _, word := range per {
		switch {
		case word == document.PerEndpoint || word == document.PerGlobal:
		case document.IsIdentity(word) && !strings.HasPrefix(word, document.PerClaim):
			identities = append(identities, word)
		default:
			words = append(words, word)
		}
	}
	words = append(words, identities...)
	for _, word := range words {
		one := newPart(word, p)
		c.parts = append(c.parts, one)
		c.claims = c.claims || one.kind == document.PerClaim
	}
	c.key = strings.Join(words, " ")
	c.families = []string{c.key}
	// If per has "client", the class has no other identity except claims, and "client" is the last word
	// of key.
	if slices.Contains(identities, document.PerClient) {
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

func newPart(word string, p pattern) part {
	one := part{word: word, kind: word}
	for _, kind := range []string{document.PerClaim, document.PerPath, document.PerHeader} {
		if name, ok := strings.CutPrefix(word, kind); ok {
			one.name, one.kind, one.at = name, kind, slices.Index(p.names, name)
		}
	}
	if one.kind == document.PerHeader {
		one.name = http.CanonicalHeaderKey(one.name)
	}
	return one
}

// place returns a text that identifies a class within a document. The key alone does not: a path
// parameter can be in another segment of another rule's endpoint.
func (c *class) place() string {
	place := []byte(c.key)
	for _, part := range c.parts {
		if part.kind == document.PerPath {
			place = strconv.AppendInt(append(place, ' '), int64(part.at), 10)
		}
	}
	return string(place)
}

// subject returns the subject that the limits of this class charge for a request. It returns the zero
// Subject if the caller lacks an identity that the class needs.
func (c *class) subject(q *Request) limiter.Subject {
	s := c.who(q)
	if c.global || s == (limiter.Subject{}) || c.endpoint == (limiter.Subject{}) {
		return s
	}
	return s.And(c.endpoint)
}

// who returns the subject of a request, but leaves the endpoint out. If all callers share one subject, who
// returns c.endpoint.
func (c *class) who(q *Request) limiter.Subject {
	if c.global {
		return c.endpoint
	}
	var s limiter.Subject
	for i := range c.parts {
		one := c.part(i, q)
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

// part returns the subject of a request for one word of per. It returns the zero Subject if the caller lacks the identity.
func (c *class) part(i int, q *Request) (s limiter.Subject) {
	switch p := &c.parts[i]; p.kind {
	case document.PerClient:
		return q.Caller.Subject()
	case document.PerUser:
		if q.Caller.User != "" {
			return limiter.User(q.Caller.User)
		}
	case document.PerAPIKey:
		if q.Caller.APIKey != "" {
			return limiter.APIKey(q.Caller.APIKey)
		}
	case document.PerIP:
		return limiter.IP(q.Caller.IP)
	case document.PerMethod:
		return limiter.Method(q.method())
	case document.PerClaim:
		if value := c.value(i, q); value != "" {
			return limiter.Claim(p.name, value)
		}
	case document.PerPath:
		return limiter.PathParameter(p.name, q.parameter(p.name, p.at))
	case document.PerHeader:
		return limiter.Header(p.word[len(document.PerHeader):], q.field(p.name))
	}
	return s
}

// maxElements bounds the items that one request writes for the elements of claims that are lists.
const maxElements = 8

// values returns the values of a claim that count.
func (p *part) values(q *Request) []string {
	values := q.Caller.Claims[p.name]
	return values[:min(len(values), maxElements)]
}

// elements returns in how many subjects of c a request counts: one for each combination of the values of claims. A
// request of a caller with more values than count, or with a claim that cannot count, has such a claim in uncounted.
func (c *class) elements(q *Request) (n int, uncounted string) {
	n = 1
	for i := range c.parts {
		p := &c.parts[i]
		if p.kind != document.PerClaim {
			continue
		}
		values, present := q.Caller.Claims[p.name]
		n *= max(1, min(len(values), maxElements))
		if present && len(values) == 0 || len(values) > maxElements || n > maxElements {
			uncounted = p.name
		}
	}
	return min(n, maxElements), uncounted
}

// value returns the value of the claim in a word of per, in the combination q.element. It returns "" without a value.
func (c *class) value(at int, q *Request) string {
	n := q.element
	for i := range c.parts {
		if c.parts[i].kind != document.PerClaim {
			continue
		}
		values := c.parts[i].values(q)
		if i == at && len(values) > 0 {
			return values[n%len(values)]
		}
		n /= max(1, len(values))
	}
	return ""
}

// chosen returns the words of per whose values a client can choose freely: parameters of the path and
// header fields.
func (c *class) chosen() (words []string) {
	for _, part := range c.parts {
		if part.kind == document.PerPath || part.kind == document.PerHeader {
			words = append(words, part.word)
		}
	}
	return words
}

// byPath reports whether the class counts by a parameter of the path.
func (c *class) byPath() bool {
	return slices.ContainsFunc(c.parts, func(p part) bool { return p.kind == document.PerPath })
}

// identities returns the words of per whose values a client cannot choose.
func (c *class) identities() (words []string) {
	for _, part := range c.parts {
		if document.IsIdentity(part.word) {
			words = append(words, part.word)
		}
	}
	return words
}

// everyone reports whether all callers share the subjects of c.
func (c *class) everyone() bool {
	return len(c.identities()) == 0
}

// allTiers reports whether callers of different tiers can share a subject of c. They do not share a user,
// an API key or a claim value, because each of these has one tier at a time.
func (c *class) allTiers() bool {
	return !slices.ContainsFunc(c.parts, func(p part) bool { return document.IsIdentity(p.word) && p.word != document.PerIP })
}

// countsBy reports whether a subject of c may have the given kind: user, apikey, ip or claim:<name>.
func (c *class) countsBy(kind string) bool {
	has := func(word string) bool {
		return slices.ContainsFunc(c.parts, func(p part) bool { return p.word == word })
	}
	return has(kind) || has(document.PerClient) && !strings.HasPrefix(kind, document.PerClaim)
}
