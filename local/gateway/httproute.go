package gateway

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weir-limits/weir/local/gateway/template"
)

// matchRoute returns the most specific route for a request with its path parameters, or nil. The
// developer guide ("Routing API requests") documents the order: a full match, then a match with
// {name+}, then $default. Assumed from the guide's example: of two routes of the same kind, the one
// with the earlier literal segment wins. Of two routes with the same path, the one that names the
// method wins.
func matchRoute(a *template.HTTP, method, path string) (*template.Route, map[string]string) {
	parts := template.SplitPath(path)
	var best *template.Route
	var parameters map[string]string
	for _, route := range a.Routes {
		found, ok := matchParts(route, method, parts)
		if ok && (best == nil || compareRoutes(route, best) < 0) {
			best, parameters = route, found
		}
	}
	if best == nil {
		best = a.Default
	}
	return best, parameters
}

func matchParts(r *template.Route, method string, parts []string) (map[string]string, bool) {
	if r.Method != "ANY" && r.Method != method || len(parts) < len(r.Path) {
		return nil, false
	}
	parameters := map[string]string{}
	for i, s := range r.Path {
		switch {
		case s.Kind == template.Greedy:
			parameters[s.Text] = strings.Join(parts[i:], "/")
			return parameters, true
		case s.Kind == template.Param && parts[i] != "":
			parameters[s.Text] = parts[i]
		case s.Kind == template.Param || s.Text != parts[i]:
			return nil, false
		}
	}
	return parameters, len(parts) == len(r.Path)
}

func compareRoutes(a, b *template.Route) int {
	rank := func(r *template.Route) []int {
		ranks := make([]int, len(r.Path)+1)
		for i, s := range r.Path {
			ranks[i+1] = int(s.Kind)
			if s.Kind == template.Greedy {
				ranks[0] = 1
			}
		}
		return ranks
	}
	if order := slices.Compare(rank(a), rank(b)); order != 0 || a.Method == b.Method {
		return order
	}
	if a.Method == "ANY" {
		return 1
	}
	return -1
}

// httpRoutes returns the routes in the form of API.Routes.
func httpRoutes(a *template.HTTP) []Route {
	var all []Route
	for _, r := range a.Routes {
		_, path, _ := strings.Cut(r.Key, " ")
		all = append(all, Route{Method: r.Method, Path: path, Function: r.Function})
	}
	slices.SortFunc(all, compareListed)
	if a.Default != nil {
		all = append(all, Route{Method: "ANY", Path: template.DefaultKey, Function: a.Default.Function})
	}
	return all
}

func compareListed(a, b Route) int {
	return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method))
}
