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

// flag returns a boolean; false if there is none.
func (o *object) flag(n *node) bool {
	if n == nil {
		return false
	}
	value, ok := n.value.(bool)
	if !ok {
		o.problems.add(n.path, "got %s, want true or false", n)
	}
	return value
}

// choice returns a string that is one of those allowed, or the first of them if there
// is none.
func (o *object) choice(key string, allowed []string) string {
	n := o.member(key)
	s, ok := o.text(n)
	switch {
	case !ok || slices.Contains(allowed, s):
	default:
		o.problems.add(n.path, "got %s, want %s", n, anyOf(allowed))
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
		if i, ok := integer(number.String()); ok && i >= 1 && i <= most {
			return i, true
		}
	}
	o.problems.add(n.path, "got %s, want a whole number from 1 to %d", n, most)
	return 0, false
}

// integer returns the value of a JSON number, if it is whole and an int64 holds it,
// however it is spelled: 100, 100.0 and 1e2 are one number, in JSON Schema too.
func integer(number string) (int64, bool) {
	const most = 18 // zeros of an int64
	mantissa, exponent := number, "0"
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		mantissa, exponent = number[:i], number[i+1:]
	}
	shift, err := strconv.Atoi(exponent)
	if err != nil {
		return 0, false
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimRight(whole+fraction, "0")
	zeros := len(whole) + shift - len(digits) // that stand behind digits
	if zeros < 0 || zeros > most {
		return 0, false
	}
	i, err := strconv.ParseInt(digits+strings.Repeat("0", zeros), 10, 64)
	return i, err == nil
}
