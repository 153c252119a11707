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
	child := n.Literals[decoded]
	if child == nil && parts[0] != "" {
		child = n.Param
	}
	if child != nil {
		if found := matchResource(child, method, parts[1:], parameters); found != nil {
			if child == n.Param {
				parameters[child.Parameter] = parts[0]
			}
			return found
		}
	}
	if n.Greedy == nil || n.Greedy.Method(method) == nil {
		return nil
	}
	parameters[n.Greedy.Parameter] = strings.Join(parts, "/")
	return n.Greedy
}

// restRoutes returns the methods in the form of API.Routes.
func restRoutes(a *template.REST) (all []Route) {
	a.Root.Each(func(n *template.Resource) {
		for verb, m := range n.Methods {
			all = append(all, Route{Method: verb, Path: n.Path, Function: m.Function, Authorizer: m.Authorizer})
		}
	})
	slices.SortFunc(all, compareListed)
	return all
}
