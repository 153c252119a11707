package rules

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// Request contains the parts of a request that rules use.
type Request struct {
	Method string
	Path   Path
	// Header has at least the fields that [Rules.Headers] names. It may be nil if Headers returns no
	// names.
	Header http.Header
	Caller caller.Caller

	path       reading           // the reading of Path that is charged
	parameters map[string]string // values of the path parameters by name; if nil, they are read from path
}

// otherMethod stands for all methods that no rule can name. Without it, each invented method would have a
// new count.
const otherMethod = "other"

// method returns the method under which limits count the request: GET for HEAD, and otherMethod for an
// unknown method.
func (q *Request) method() string {
	switch q.Method {
	case http.MethodHead:
		return http.MethodGet
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return q.Method
	}
	return otherMethod
}

func (q *Request) parameter(name string, at int) string {
	if q.parameters != nil {
		return q.parameters[name]
	}
	return q.path.segment(at)
}

// field returns the value of a header field. If the field is repeated, field joins its values with a
// comma. Some hosts already join the values, so this gives a request the same value on all hosts. A
// missing field has the value "", so a client cannot escape a limit by leaving out the field.
func (q *Request) field(name string) string {
	values := q.Header[name]
	if len(values) == 1 {
		return values[0]
	}
	return strings.Join(values, ",")
}

// Headers returns the names of the header fields by which limits count, in their canonical form and
// sorted.
func (r *Rules) Headers() []string { return r.headers }

// Claims returns the names of the claims by which limits count.
func (r *Rules) Claims() (names []string) {
	for i := range r.classes {
		for _, part := range r.classes[i].parts {
			if strings.HasPrefix(part.word, document.PerClaim) && !slices.Contains(names, part.name) {
				names = append(names, part.name)
			}
		}
	}
	return names
}

// CostFields returns the names of the response fields in which an API reports costs, sorted. It is empty
// unless a limit counts cost.
func (r *Rules) CostFields() []string { return r.costFields }

func (c *compiler) readCostFields() {
	fields := map[string]bool{}
	for l := range c.rules.limits() {
		if l.Count.Of == limiter.CountCost {
			fields[http.CanonicalHeaderKey(l.Count.CostField())] = true
		}
	}
	c.rules.costFields = slices.Sorted(maps.Keys(fields))
}

func (c *compiler) readHeaders() {
	for i := range c.rules.classes {
		for _, part := range c.rules.classes[i].parts {
			if name, ok := strings.CutPrefix(part.word, document.PerHeader); ok {
				c.rules.headers = append(c.rules.headers, http.CanonicalHeaderKey(name))
			}
		}
	}
	slices.Sort(c.rules.headers)
	c.rules.headers = slices.Compact(c.rules.headers)
}
