package template

import (
	"slices"
	"strings"
)

// Resource is a resource of a REST API: one node in the tree of paths.
type Resource struct {
	ID, Path        string
	Parameter       string // name of the path parameter, if the part is {name} or {name+}
	LiteralChildren map[string]*Resource
	ParamChild      *Resource
	GreedyChild     *Resource
	Methods         map[string]*Method
}

func newResource(id, path string) *Resource {
	return &Resource{ID: id, Path: path, LiteralChildren: map[string]*Resource{}, Methods: map[string]*Method{}}
}

// add adds a child and returns it. It returns nil if n already has the same child, or if n is
// {name+}, which cannot have children.
func (n *Resource) add(id string, s Segment, part string) *Resource {
	child := newResource(id, strings.TrimSuffix(n.Path, "/")+"/"+part)
	switch {
	case n.Parameter != "" && strings.HasSuffix(n.Path, "+}"):
		return nil
	case s.Kind == Literal && n.LiteralChildren[part] == nil:
		n.LiteralChildren[part] = child
	case s.Kind == Param && n.ParamChild == nil:
		n.ParamChild, child.Parameter = child, s.Text
	case s.Kind == Greedy && n.GreedyChild == nil:
		n.GreedyChild, child.Parameter = child, s.Text
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
