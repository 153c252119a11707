package gateway

import (
	"cmp"
	"slices"
	"strings"
)

// match returns the most specific route for a request and its path parameters, or nil.
// By the developer guide ("Routing API requests") that is a full match before one with
// a {name+}, and $default last. Between two of a kind the path that is literal earlier
// wins, and then the route that names the method; that is assumed, after its example.
func (a *httpAPI) match(method, path string) (*httpRoute, map[string]string) {
	parts := splitPath(path)
	var best *httpRoute
	var parameters map[string]string
	for _, route := range a.routes {
		found, ok := route.match(method, parts)
		if ok && (best == nil || compareRoutes(route, best) < 0) {
			best, parameters = route, found
		}
	}
	if best == nil {
		best = a.fallback
	}
	return best, parameters
}

func (r *httpRoute) match(method string, parts []string) (map[string]string, bool) {
	if r.method != "ANY" && r.method != method || len(parts) < len(r.path) {
		return nil, false
	}
	parameters := map[string]string{}
	for i, s := range r.path {
		switch {
		case s.kind == greedy:
			parameters[s.text] = strings.Join(parts[i:], "/")
			return parameters, true
		case s.kind == variable && parts[i] != "":
			parameters[s.text] = parts[i]
		case s.kind == variable || s.text != parts[i]:
			return nil, false
		}
	}
	return parameters, len(parts) == len(r.path)
}

// compareRoutes is negative if a is more specific than b.
func compareRoutes(a, b *httpRoute) int {
	rank := func(r *httpRoute) []int {
		ranks := make([]int, len(r.path)+1)
		for i, s := range r.path {
			ranks[i+1] = int(s.kind)
			if s.kind == greedy {
				ranks[0] = 1
			}
		}
		return ranks
	}
	if order := slices.Compare(rank(a), rank(b)); order != 0 || a.method == b.method {
		return order
	}
	if a.method == "ANY" {
		return 1
	}
	return -1
}

// list returns the routes for printing.
func (a *httpAPI) list() []Route {
	var all []Route
	for _, r := range a.routes {
		_, path, _ := strings.Cut(r.key, " ")
		all = append(all, Route{Method: r.method, Path: path, Function: r.function})
	}
	slices.SortFunc(all, compareListed)
	if a.fallback != nil {
		all = append(all, Route{Method: "ANY", Path: defaultKey, Function: a.fallback.function})
	}
	return all
}

func compareListed(a, b Route) int {
	return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method))
}
