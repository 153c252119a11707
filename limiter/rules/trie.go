package rules

import (
	"slices"
)

// trie finds the rules whose endpoint matches a path.
type trie struct {
	literal map[string]*trie
	param   *trie
	here    []int // rules whose endpoint ends at this node
	below   []int // rules whose endpoint matches the path of this node and every path below it
}

func (t *trie) add(p pattern, rule int) {
	for _, segment := range p.segments {
		t = t.child(segment)
	}
	if p.below {
		t.below = append(t.below, rule)
	} else {
		t.here = append(t.here, rule)
	}
}

func (t *trie) child(segment string) *trie {
	if segment == parameter {
		if t.param == nil {
			t.param = &trie{}
		}
		return t.param
	}
	if t.literal == nil {
		t.literal = map[string]*trie{}
	}
	if t.literal[segment] == nil {
		t.literal[segment] = &trie{}
	}
	return t.literal[segment]
}

// match appends to dst the rules whose endpoint matches one of the paths, each once and in file order.
func (t *trie) match(dst []int, paths ...reading) []int {
	from := len(dst)
	for _, r := range paths {
		if r.path == "/" {
			r.path = ""
		}
		dst = t.walk(dst, r.path)
	}
	slices.Sort(dst[from:])
	if len(paths) > 1 {
		dst = dst[:from+len(slices.Compact(dst[from:]))]
	}
	return dst
}

// walk appends the rules that match the rest of a path. A parameter does not match the empty segment after a
// slash at the end.
func (t *trie) walk(dst []int, rest string) []int {
	dst = append(dst, t.below...)
	switch rest {
	case "":
		return append(dst, t.here...)
	case "/":
		return dst
	}
	segment, rest := next(rest)
	if next := t.literal[segment]; next != nil {
		dst = next.walk(dst, rest)
	}
	if t.param != nil {
		dst = t.param.walk(dst, rest)
	}
	return dst
}
