package serve

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/gateway"
)

// endpoint is the part of a rule that selects requests.
type endpoint struct {
	Endpoint, Method string
}

// endpointsOf returns the endpoints of rules, by index of the rule.
func endpointsOf(r *rules.Rules) (list []endpoint) {
	for i := range r.Len() {
		pattern, method := r.Endpoint(i)
		list = append(list, endpoint{pattern, method})
	}
	return list
}

// unmatched returns a line for each rule that no request to the APIs can match. The endpoint or the
// method of such a rule is probably misspelled.
func unmatched(rules []endpoint, apis []*gateway.API) (lines []string) {
	for i, rule := range rules {
		if !slices.ContainsFunc(apis, func(a *gateway.API) bool { return slices.ContainsFunc(a.Routes, rule.meets) }) {
			lines = append(lines, fmt.Sprintf("rules[%d] matches no route: %s", i, strings.TrimSpace(rule.Method+" "+rule.Endpoint)))
		}
	}
	return lines
}

// routed reports whether an API has a route for a request. OPTIONS and HEAD requests always count as
// routed, OPTIONS because API Gateway answers preflights.
func routed(apis []*gateway.API, method, path string) bool {
	if method == http.MethodOptions || method == http.MethodHead {
		return true
	}
	return slices.ContainsFunc(apis, func(a *gateway.API) bool { return slices.ContainsFunc(a.Routes, endpoint{path, method}.meets) })
}

// meets reports whether a request can match both the rule and the route.
func (e endpoint) meets(r gateway.Route) bool {
	method := r.Method
	switch method {
	case http.MethodOptions: // OPTIONS is never limited
		return false
	case http.MethodHead: // HEAD counts as GET
		method = http.MethodGet
	}
	if e.Method != "" && method != "ANY" && e.Method != method {
		return false
	}
	if e.Endpoint == "*" || r.Path == "$default" {
		return true
	}
	rule, below := strings.CutSuffix(e.Endpoint, "/*")
	mine, theirs := segments(rule), segments(r.Path)
	for i := range min(len(mine), len(theirs)) {
		if mine[i] != theirs[i] && mine[i][0] != '{' && theirs[i][0] != '{' {
			return false
		}
	}
	greedy := strings.HasSuffix(r.Path, "+}") // matches one or more segments
	return (len(mine) >= len(theirs) || below) && (len(theirs) >= len(mine) || greedy)
}

// segments returns the segments of a path: literals, and parameters in braces.
func segments(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}
