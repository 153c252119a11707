package gateway

import (
	"net/url"
	"slices"
	"strings"

	"github.com/weir-limits/weir/local/gateway/template"
)

// matchResource finds the resource for the parts of a path and adds its parameters, which
// stay percent-encoded. A literal resource takes precedence over its sibling {name} for all
// paths below the literal, even if the literal lacks the method (developer guide, "Set up a
// method request in API Gateway"). The documentation does not state the remaining rules; they are
// assumptions. {name+} matches if no resource below {name} matches. A literal is compared with the
// decoded part. A part with a malformed % is compared without decoding.
func matchResource(n *template.Resource, parts []string, parameters map[string]string) *template.Resource {
	if len(parts) == 0 {
		return n
	}
	decoded, err := url.PathUnescape(parts[0])
	if err != nil {
		decoded = parts[0]
	}
	if child := n.LiteralChildren[decoded]; child != nil {
		return matchResource(child, parts[1:], parameters)
	}
	if n.ParamChild != nil && parts[0] != "" {
		if found := matchResource(n.ParamChild, parts[1:], parameters); found != nil {
			parameters[n.ParamChild.Parameter] = parts[0]
			return found
		}
	}
	if n.GreedyChild != nil {
		parameters[n.GreedyChild.Parameter] = strings.Join(parts, "/")
	}
	return n.GreedyChild
}

// restRoutes returns the methods of the API for printing.
func restRoutes(a *template.REST) []Route {
	var all []Route
	for _, n := range a.Resources {
		for verb, m := range n.Methods {
			route := Route{Method: verb, Path: n.Path, Function: m.Function}
			if m.Authorizer != nil {
				route.Authorizer = m.Authorizer.Function
			}
			all = append(all, route)
		}
	}
	slices.SortFunc(all, compareListed)
	return all
}
