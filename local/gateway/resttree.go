package gateway

import (
	"net/url"
	"slices"
	"strings"
)

// restResource is one resource of a REST API: a node of the tree of its paths.
type restResource struct {
	id, path  string
	parameter string // name, if it is {name} or {name+}
	literals  map[string]*restResource
	variable  *restResource
	greedy    *restResource
	methods   map[string]*restMethod
}

func newRESTResource(id, path string) *restResource {
	return &restResource{id: id, path: path, literals: map[string]*restResource{}, methods: map[string]*restMethod{}}
}

// add makes a child, and returns nil if there is one like it or a greedy parameter
// would have a child.
func (n *restResource) add(id string, s segment, part string) *restResource {
	child := newRESTResource(id, strings.TrimSuffix(n.path, "/")+"/"+part)
	switch {
	case n.parameter != "" && strings.HasSuffix(n.path, "+}"):
		return nil
	case s.kind == literal && n.literals[part] == nil:
		n.literals[part] = child
	case s.kind == variable && n.variable == nil:
		n.variable, child.parameter = child, s.text
	case s.kind == greedy && n.greedy == nil:
		n.greedy, child.parameter = child, s.text
	default:
		return nil
	}
	return child
}

// match finds the resource for the parts of a path and fills in its parameters, which
// stay percent-encoded. A specific resource takes everything below it from its generic
// siblings, whatever methods it has (developer guide, "Set up a method request in API
// Gateway"). That {name} yields to {name+} when nothing below it matches, and that
// literals are compared decoded, is assumed, and so is that a malformed % stands for itself.
func (n *restResource) match(parts []string, parameters map[string]string) *restResource {
	if len(parts) == 0 {
		return n
	}
	decoded, err := url.PathUnescape(parts[0])
	if err != nil {
		decoded = parts[0]
	}
	if child := n.literals[decoded]; child != nil {
		return child.match(parts[1:], parameters)
	}
	if n.variable != nil && parts[0] != "" {
		if found := n.variable.match(parts[1:], parameters); found != nil {
			parameters[n.variable.parameter] = parts[0]
			return found
		}
	}
	if n.greedy != nil {
		parameters[n.greedy.parameter] = strings.Join(parts, "/")
	}
	return n.greedy
}

// method returns the resource's method for a verb, or nil. ANY stands for the seven
// verbs that API Gateway knows.
func (n *restResource) method(verb string) *restMethod {
	if m := n.methods[verb]; m != nil {
		return m
	}
	if slices.Contains(verbs, verb) {
		return n.methods["ANY"]
	}
	return nil
}

// routes returns the methods of the API for printing.
func (a *restAPI) routes() []Route {
	var all []Route
	for _, n := range a.resources {
		for verb, m := range n.methods {
			route := Route{Method: verb, Path: n.path, Function: m.function}
			if m.authorizer != nil {
				route.Authorizer = m.authorizer.function
			}
			all = append(all, route)
		}
	}
	slices.SortFunc(all, compareListed)
	return all
}
