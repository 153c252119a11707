package lambdahttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// member is a member of a JSON object. value and pair are parts of the text of the object.
type member struct {
	name       string // decoded name
	pair       []byte // the name and the value, as in the text
	value      []byte
	start, end int // offsets of value in the text
}

const space = " \t\r\n"

// isObject reports whether text is a JSON object, and nothing else.
func isObject(text []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(text, space), []byte("{")) && json.Valid(text)
}

// membersIn yields the decoded name and the rest of each member of an object, which must be valid JSON. A text of 6 MB can
// have a million members, so it allocates nothing for a name without escapes.
func membersIn(text []byte) iter.Seq2[[]byte, member] {
	return func(yield func([]byte, member) bool) {
		at := bytes.IndexByte(text, '{') + 1
		for {
			at += len(text[at:]) - len(bytes.TrimLeft(text[at:], space+","))
			if text[at] == '}' {
				return
			}
			begin := at
			at += valueLength(text[at:])
			name := text[begin+1 : at-1]
			if bytes.IndexByte(name, '\\') >= 0 {
				name = []byte(unquoted(text[begin:at]))
			}
			at += len(text[at:]) - len(bytes.TrimLeft(text[at:], space+":"))
			start := at
			at += valueLength(text[at:])
			if !yield(name, member{"", text[begin:at], text[start:at], start, at}) {
				return
			}
		}
	}
}

// valueLength returns the length of the JSON value at the beginning of a valid text.
func valueLength(text []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
			if !quoted && depth == 0 {
				return i + 1
			}
		case quoted:
		case c == '{' || c == '[':
			depth++
		case depth > 0 && (c == '}' || c == ']'):
			depth--
			if depth == 0 {
				return i + 1
			}
		case depth == 0 && (c == ',' || c == '}' || c == ']' || c <= ' '):
			return i // a number, or a word
		}
	}
	return len(text)
}

// unquoted returns the value of a JSON string. It returns other text unchanged.
func unquoted(text []byte) string {
	var value string
	if json.Unmarshal(text, &value) != nil {
		return string(text)
	}
	return value
}

// maxMembers bounds the members that allMembers returns. No host accepts so many header fields.
const maxMembers = 8192

// allMembers returns the members of an object.
func allMembers(text []byte) (members []member, err error) {
	if !isObject(text) {
		return nil, errors.New("want a JSON object")
	}
	for name, m := range membersIn(text) {
		if len(members) == maxMembers {
			return nil, fmt.Errorf("got more than %d members, want at most that", maxMembers)
		}
		m.name = string(name)
		members = append(members, m)
	}
	return members, nil
}

// membersOf returns those members of the object in text that are named. If several members have the name, it returns
// the last one, as hosts do. others is true if the object has members of other names.
func membersOf(text []byte, names ...string) (members []member, others bool) {
	for name, m := range membersIn(text) {
		i := slices.IndexFunc(names, func(n string) bool { return n == string(name) })
		if i < 0 {
			others = true
			continue
		}
		m.name = names[i]
		if before := find(members, m.name); before != nil {
			*before = m
		} else {
			members = append(members, m)
		}
	}
	return members, others
}

func find(members []member, name string) *member {
	for i := range members {
		if members[i].name == name {
			return &members[i]
		}
	}
	return nil
}

func (m *member) null() bool { return m == nil || string(m.value) == "null" }
