package gateway

import (
	"net/url"
	"slices"
	"strings"

	"github.com/weir-limits/weir/local/gateway/template"
)

// matchResource finds the resource that has the path and the method, and collects the path parameters, still
// percent-encoded. A literal resource has precedence over its sibling {name} for all paths below it, even if the
// literal resource lacks the method (developer guide, "Set up a method request in API Gateway"). Recorded: {name+}
// gets the requests that no other resource matches. Assumed: a literal is compared with the decoded part of the path,
// or with the raw part if its percent-encoding is malformed.
func matchResource(n *template.Resource, method string, parts []string, parameters map[string]string) *template.Resource {
	if len(parts) == 0 {
		if n.Method(method) == nil {
			return nil
		}
		return n
	}
	decoded, err := url.PathUnescape(parts[0])
	if err != nil {
		decoded = parts[0]
	}
	child := n.LiteralChildren[decoded]
	if child == nil && parts[0] != "" {
		child = n.ParamChild
	}
	if child != nil {
		if found := matchResource(child, method, parts[1:], parameters); found != nil {
			if child == n.ParamChild {
				parameters[child.Parameter] = parts[0]
			}
			return found
		}
	}
	if n.GreedyChild == nil || n.GreedyChild.Method(method) == nil {
		return nil
	}
	parameters[n.GreedyChild.Parameter] = strings.Join(parts, "/")
	return n.GreedyChild
}

// restRoutes returns the methods in the form of API.Routes.
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
