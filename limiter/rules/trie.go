package rules

import (
	"slices"
	"strings"
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

// match appends to dst the rules whose endpoint matches a path, in file order.
func (t *trie) match(dst []int, path Path) []int {
	from := len(dst)
	dst = t.walk(dst, strings.TrimPrefix(path.normal, "/"))
	slices.Sort(dst[from:])
	return dst
}

func (t *trie) walk(dst []int, rest string) []int {
	dst = append(dst, t.below...)
	if rest == "" {
		return append(dst, t.here...)
	}
	segment, rest, _ := strings.Cut(rest, "/")
	if next := t.literal[segment]; next != nil {
		dst = next.walk(dst, rest)
	}
	if t.param != nil {
		dst = t.param.walk(dst, rest)
	}
	return dst
}
