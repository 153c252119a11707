package rules

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// object reads the members of a JSON object, and notes what is wrong with them.
type object struct {
	node     *node
	problems *Problems
	asked    []string
}

func (n *node) object(problems *Problems) *object {
	if n.kind != isObject {
		problems.add(n.path, "got %s, want an object", n)
	}
	return &object{node: n, problems: problems}
}

// member returns the value of a key; nil if there is none.
func (o *object) member(key string) *node {
	o.asked = append(o.asked, key)
	for _, m := range o.node.members {
		if m.key == key {
			return m.node
		}
	}
	return nil
}

// required is member, and notes a problem if there is none.
func (o *object) required(key string) *node {
	n := o.member(key)
	if n == nil && o.node.kind == isObject {
		o.problems.add(join(o.node.path, key), "is missing")
	}
	return n
}

// done notes every member that nobody asked for.
func (o *object) done() {
	for _, m := range o.node.members {
		if !slices.Contains(o.asked, m.key) {
			o.problems.add(m.node.path, "unknown field; known here: %s", strings.Join(o.asked, ", "))
		}
	}
}

// text returns a string; ok is false if there is none.
func (o *object) text(n *node) (s string, ok bool) {
	if n == nil {
		return "", false
	}
	s, ok = n.value.(string)
	if !ok {
		o.problems.add(n.path, "got %s, want a string", n)
	}
	return s, ok
}

// choice returns a string that is one of those allowed, or the first of them if there
// is none. Those that a later version brings are refused as such.
func (o *object) choice(key string, allowed []string, later ...string) string {
	n := o.member(key)
	s, ok := o.text(n)
	switch {
	case !ok || slices.Contains(allowed, s):
	case slices.Contains(later, s):
		o.problems.add(n.path, "%s is not supported yet, want %s", n, anyOf(allowed))
	default:
		o.problems.add(n.path, "got %s, want %s", n, anyOf(append(slices.Clone(allowed), later...)))
	}
	if s == "" {
		return allowed[0]
	}
	return s
}

func anyOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// whole returns an integer from 1 to most; ok is false if there is none.
func (o *object) whole(n *node, most int64) (i int64, ok bool) {
	if n == nil {
		return 0, false
	}
	if number, isNumber := n.value.(json.Number); isNumber {
		if i, err := strconv.ParseInt(number.String(), 10, 64); err == nil && i >= 1 && i <= most {
			return i, true
		}
	}
	o.problems.add(n.path, "got %s, want a whole number from 1 to %d", n, most)
	return 0, false
}
