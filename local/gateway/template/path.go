package template

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var verbs = []string{"ANY", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}

// Segment is one part of the path of a resource or a route, between two slashes.
type Segment struct {
	Kind SegmentKind
	Text string // the literal, or the parameter's name
}

// SegmentKind defines which parts of a path a segment matches. A smaller value is more specific.
type SegmentKind int

// The kinds of segments.
const (
	Literal SegmentKind = iota // matches one part, equal to Text
	Param                      // {name}: matches one part
	Greedy                     // {name+}: matches the rest of the path
)

// segmentForm has the characters that a path part may contain (developer guide, "Amazon API Gateway
// important notes").
var segmentForm = regexp.MustCompile(`^(?:([A-Za-z0-9._:,-]+)|\{([A-Za-z0-9._:-]+)(\+?)\})$`)

func parseSegment(part string) (s Segment, ok bool) {
	match := segmentForm.FindStringSubmatch(part)
	switch {
	case match == nil:
		return s, false
	case match[1] != "":
		return Segment{Literal, part}, true
	case match[3] != "":
		return Segment{Greedy, match[2]}, true
	}
	return Segment{Param, match[2]}, true
}

// SplitPath returns the parts of a path between the slashes. It returns none for "/".
func SplitPath(path string) []string {
	path = strings.TrimPrefix(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

// Resource is a resource of a REST API: one node in the tree of paths.
type Resource struct {
	ID, Path  string
	Parameter string               // name of the path parameter, if the part is {name} or {name+}
	Literals  map[string]*Resource // children
	Param     *Resource            // child {name}
	Greedy    *Resource            // child {name+}
	Methods   map[string]*Method
}

func newResource(id, path string) *Resource {
	return &Resource{ID: id, Path: path, Literals: map[string]*Resource{}, Methods: map[string]*Method{}}
}

// add adds a child. It returns nil if n already has the same child, or if n is {name+}, which cannot have children.
func (n *Resource) add(id, part string, s Segment) *Resource {
	child := newResource(id, strings.TrimSuffix(n.Path, "/")+"/"+part)
	switch {
	case strings.HasSuffix(n.Path, "+}"):
		return nil
	case s.Kind == Literal && n.Literals[part] == nil:
		n.Literals[part] = child
	case s.Kind == Param && n.Param == nil:
		n.Param, child.Parameter = child, s.Text
	case s.Kind == Greedy && n.Greedy == nil:
		n.Greedy, child.Parameter = child, s.Text
	default:
		return nil
	}
	return child
}

// Method returns the resource's method for a verb, or nil. ANY matches the seven verbs of API
// Gateway.
func (n *Resource) Method(verb string) *Method {
	if m := n.Methods[verb]; m != nil {
		return m
	}
	if slices.Contains(verbs, verb) {
		return n.Methods["ANY"]
	}
	return nil
}

// Each calls f for the resource and for all below it.
func (n *Resource) Each(f func(*Resource)) {
	f(n)
	for _, child := range slices.Concat(slices.Collect(maps.Values(n.Literals)), []*Resource{n.Param, n.Greedy}) {
		if child != nil {
			child.Each(f)
		}
	}
}

// below returns the resource at a path below n, and adds it if it is missing. It returns nil if a part of the path is
// malformed, or if the path conflicts with another one.
func (n *Resource) below(path string) *Resource {
	for _, part := range SplitPath(path) {
		s, ok := parseSegment(part)
		var found *Resource
		n.Each(func(r *Resource) {
			if r.Path == strings.TrimSuffix(n.Path, "/")+"/"+part {
				found = r
			}
		})
		if found == nil && ok {
			found = n.add(n.ID+"/"+part, part, s)
		}
		n = found
		if n == nil {
			return nil
		}
	}
	return n
}

// WithRoutes returns the template with these routes, such as "GET /items/{id}", in place of its own. Each has the
// authorizer, the function and the timeout of a route of the template.
func (t *Template) WithRoutes(routes []string) (*Template, error) {
	made := *t
	if t.REST != nil {
		api := *t.REST
		made.REST, api.Root = &api, newResource(t.REST.Root.ID, "/")
		var like *Method
		t.REST.Root.Each(func(n *Resource) {
			for _, m := range n.Methods {
				if m.Function != "" {
					like = m
				}
			}
		})
		for _, key := range routes {
			verb, path, _ := strings.Cut(key, " ")
			n := api.Root.below(path)
			if n == nil || n.Methods[verb] != nil || !slices.Contains(verbs, verb) || like == nil {
				return nil, fmt.Errorf("route %q: want a method and a path that the API does not have yet, such as GET /items/{id}", key)
			}
			own := *like // each method has a throttle of its own
			n.Methods[verb] = &own
		}
	}
	if t.HTTP != nil {
		api := *t.HTTP
		made.HTTP, api.Routes = &api, nil
		for _, key := range routes {
			r, ok := parseRouteKey(key)
			if !ok || slices.ContainsFunc(api.Routes, r.same) || len(t.HTTP.Routes) == 0 {
				return nil, fmt.Errorf("route %q: want a method and a path that the API does not have yet, such as GET /items/{id}", key)
			}
			r.Function, r.Timeout = t.HTTP.Routes[0].Function, t.HTTP.Routes[0].Timeout
			api.Routes = append(api.Routes, r)
		}
	}
	return &made, nil
}
