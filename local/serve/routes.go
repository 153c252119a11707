package serve

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/gateway"
)

type endpoint struct {
	Endpoint, Method string
}

func endpointsOf(r *rules.Rules) (list []endpoint) {
	for i := range r.Len() {
		pattern, method := r.Endpoint(i)
		list = append(list, endpoint{pattern, method})
	}
	return list
}

// placed is an endpoint with its place in the rules document, such as rules[1].
type placed struct {
	place string
	endpoint
}

// placedIn returns all endpoints in a rules document: of the rules, of the exemptions, and of the
// usage.
func placedIn(r *rules.Rules) (list []placed) {
	for i, rule := range endpointsOf(r) {
		list = append(list, placed{fmt.Sprintf("rules[%d]", i), rule})
	}
	for _, e := range r.ExemptEndpoints() {
		list = append(list, placed{e.Path, endpoint{Endpoint: e.Value}})
	}
	if path := r.UsageEndpoint(); path != "" {
		list = append(list, placed{"usage.endpoint", endpoint{path, http.MethodGet}})
	}
	return list
}

// warn prints the endpoints of the rules that no route can match, because they are probably misspelled.
func (s *Server) warn(r *rules.Rules) {
	for _, line := range unmatched(placedIn(r), s.apis) {
		fmt.Fprintln(s.Out, "warning:", line)
	}
}

// unmatched returns one line for each endpoint that no route of the APIs can match: its path or
// method is probably misspelled, or a route is missing.
func unmatched(endpoints []placed, apis []*gateway.API) (lines []string) {
	for _, e := range endpoints {
		if !slices.ContainsFunc(apis, func(a *gateway.API) bool { return slices.ContainsFunc(a.Routes, e.meets) }) {
			lines = append(lines, fmt.Sprintf("%s matches no route: %s", e.place, strings.TrimSpace(e.Method+" "+e.Endpoint)))
		}
	}
	return lines
}

// routing returns the kinds of APIs that have a route for a request, and the other kinds. All have one for OPTIONS,
// because API Gateway answers preflights.
func routing(apis []*gateway.API, method, path string) (routed, unrouted []string) {
	serve := map[gateway.Kind]bool{}
	for _, a := range apis {
		serve[a.Kind] = serve[a.Kind] || method == http.MethodOptions || a.Serves(method, path)
	}
	for _, kind := range slices.Sorted(maps.Keys(serve)) {
		if serve[kind] {
			routed = append(routed, string(kind))
		} else {
			unrouted = append(unrouted, string(kind))
		}
	}
	return routed, unrouted
}

// meets reports whether some request matches both the endpoint of the rule and the route.
func (e endpoint) meets(r gateway.Route) bool {
	method := r.Method
	switch method {
	case http.MethodOptions: // API Gateway answers it, or it counts like the method that it asks for
		return false
	case http.MethodHead: // a rule for GET also applies to HEAD
		method = http.MethodGet
	}
	if e.Method != "" && method != "ANY" && e.Method != method {
		return false
	}
	if e.Endpoint == "*" || r.Path == gateway.DefaultRoute {
		return true
	}
	rule, below := strings.CutSuffix(e.Endpoint, "/*")
	mine, theirs := segments(rule), segments(r.Path)
	for i := range min(len(mine), len(theirs)) {
		if mine[i] != theirs[i] && mine[i][0] != '{' && theirs[i][0] != '{' {
			return false
		}
	}
	greedy := strings.HasSuffix(r.Path, "+}") // a greedy parameter matches one or more segments
	return (len(mine) >= len(theirs) || below) && (len(theirs) >= len(mine) || greedy)
}

// segments returns the segments of a path: literals, and parameters in braces.
func segments(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// sample returns the path of a GET request that matches the endpoint and one of the routes. ok is false if there is none.
func (e endpoint) sample(routes []gateway.Route) (path string, ok bool) {
	for _, route := range routes {
		get := (e.Method == "" || e.Method == http.MethodGet) && (route.Method == "ANY" || route.Method == http.MethodGet)
		if !get || !e.meets(route) {
			continue
		}
		wide := route.Path == gateway.DefaultRoute || strings.HasSuffix(route.Path, "+}")
		if wide && e.Endpoint != "*" {
			return concrete(e.Endpoint), true
		}
		return concrete(route.Path), true
	}
	return "", false
}

// concrete replaces each path parameter, also a greedy one, with 1.
func concrete(path string) string {
	parts := segments(strings.TrimPrefix(path, gateway.DefaultRoute))
	for i, part := range parts {
		if part[0] == '{' || part == "*" {
			parts[i] = "1"
		}
	}
	return "/" + strings.Join(parts, "/")
}
