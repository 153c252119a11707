package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxBytes is the length of the longest document.
const MaxBytes = 1 << 20

// maxDepth is the largest nesting depth of a document.
const maxDepth = 12

// maxValues is the largest number of values in a document. An honest document of MaxBytes has fewer. It bounds
// the memory that a hostile document needs.
const maxValues = 200_000

// node is a JSON value with its place in the text.
type node struct {
	parent   *node
	key      string // name of the value in an object
	index    int32  // index of the value in a list
	end      int32  // offset of the first byte after the value
	offset   int32  // offset of the member's name or, in a list, of the value
	value    any    // string, json.Number, bool or nil; nil for an object or a list
	kind     kind
	children []*node // members of an object or elements of a list, in file order
}

type kind byte

const (
	isObject kind = iota
	isList
	isString
	isNumber
	isBoolean
	isNull
)

// String returns the word for the kind in messages.
func (k kind) String() string {
	return [...]string{"an object", "a list", "a string", "a number", "a boolean", "null"}[k]
}

// String returns a value in the form that messages show: a shortened string or number, or the kind of an
// object or a list.
func (n *node) String() string {
	switch n.kind {
	case isString:
		return strconv.Quote(Shorten(n.value.(string)))
	case isNumber:
		return Shorten(n.value.(json.Number).String())
	case isBoolean:
		return strconv.FormatBool(n.value.(bool))
	case isObject, isList, isNull:
	}
	return n.kind.String()
}

// path returns the path of n, such as rules[0].limits.free. Only messages need it: the paths of all nodes of
// a hostile document would take much more memory than its text.
func (n *node) path() string {
	switch {
	case n.parent == nil:
		return ""
	case n.parent.kind == isList:
		return n.parent.path() + "[" + strconv.Itoa(int(n.index)) + "]"
	}
	return Join(n.parent.path(), n.key)
}

// members returns the members of an object; nil for another value.
func (n *node) members() []*node {
	if n.kind != isObject {
		return nil
	}
	return n.children
}

// child returns the child of n on a path, and the rest of the path behind it. It returns nil if there is none. rest is the
// path behind n.
func (n *node) child(rest string) (*node, string) {
	if n.kind == isList {
		number, after, _ := strings.Cut(strings.TrimPrefix(rest, "["), "]")
		if i, err := strconv.Atoi(number); err == nil && 0 <= i && i < len(n.children) {
			return n.children[i], after
		}
	}
	rest = strings.TrimPrefix(rest, ".")
	for _, c := range n.members() {
		if after, ok := strings.CutPrefix(rest, Join("", c.key)); ok && (after == "" || after[0] == '.' || after[0] == '[') {
			return c, after
		}
	}
	return nil, rest
}

// maxShown bounds the part of a text that a message or a path shows.
const maxShown = 64

// Shorten returns the part of a text that messages show: at most maxShown bytes, with "..." after a
// text that was cut.
func Shorten(s string) string {
	if len(s) > maxShown {
		return s[:maxShown] + "..."
	}
	return s
}

// Join returns the path of a member.
func Join(path, key string) string {
	switch {
	case !isPlainKey(key):
		return path + "[" + strconv.Quote(Shorten(key)) + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

func line(text []byte, offset int) int { return 1 + bytes.Count(text[:offset], []byte("\n")) }

// scanner reads JSON into nodes.
type scanner struct {
	text       []byte
	tokens     *json.Decoder
	values     int
	duplicates []*node // members with the name of an earlier member
	mistake    string  // why the text is not read; "" if it is
	at         int     // offset of the mistake
}

// scan reads a text, which must contain one value.
func scan(text []byte) (*scanner, *node) {
	s := &scanner{text: text, tokens: json.NewDecoder(bytes.NewReader(text))}
	s.tokens.UseNumber()
	var all json.RawMessage
	if bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		s.mistake = "the document begins with a byte order mark; save it as UTF-8 without the mark"
	} else if err := json.Unmarshal(text, &all); err != nil {
		s.invalid(err)
	}
	if s.mistake != "" {
		return s, nil
	}
	return s, s.value(nil, 0)
}

// invalid keeps an error of encoding/json, with a remedy for common mistakes. The error shows only one character, because
// the text may be a secret that was passed by mistake.
func (s *scanner) invalid(err error) {
	s.mistake, s.at = err.Error(), len(s.text)
	e, ok := errors.AsType[*json.SyntaxError](err)
	if !ok || e.Offset == 0 || strings.HasPrefix(s.mistake, "unexpected end") {
		return
	}
	s.at = int(e.Offset) - 1
	switch rest := s.text[s.at:]; {
	case bytes.HasPrefix(s.text, []byte("---")) || bytes.Contains(append([]byte("\n"), s.text...), []byte("\nrules:")):
		s.mistake += "; rules are JSON, not YAML"
	case bytes.HasPrefix(rest, []byte("/")) || rest[0] == '#':
		s.mistake += "; JSON has no comments; use the field note"
	case rest[0] == '\'':
		s.mistake += "; JSON has no single quotes"
	case (rest[0] == '}' || rest[0] == ']') && bytes.HasSuffix(bytes.TrimRight(s.text[:s.at], " \t\r\n"), []byte(",")):
		s.mistake += "; remove the comma before this character"
	}
}

// next returns the offset of the next token.
func (s *scanner) next() int32 {
	rest := s.text[s.tokens.InputOffset():]
	return int32(len(s.text) - len(bytes.TrimLeft(rest, " \t\r\n,:")))
}

// value reads a value of a text that is valid JSON.
func (s *scanner) value(parent *node, depth int) *node {
	n := &node{parent: parent, offset: s.next()}
	switch s.values++; {
	case depth > maxDepth:
		s.mistake, s.at = fmt.Sprintf("nested more than %d deep", maxDepth), int(n.offset)
		return n
	case s.values > maxValues:
		s.mistake, s.at = fmt.Sprintf("more than %d values", maxValues), int(n.offset)
		return n
	}
	token, _ := s.tokens.Token()
	switch token := token.(type) {
	case json.Delim:
		n.kind = isObject
		if token == '[' {
			n.kind = isList
		}
		s.children(n, depth+1)
	case string:
		n.kind, n.value = isString, token
	case json.Number:
		n.kind, n.value = isNumber, token
	case bool:
		n.kind, n.value = isBoolean, token
	default:
		n.kind = isNull
	}
	n.end = int32(s.tokens.InputOffset())
	return n
}

func (s *scanner) children(n *node, depth int) {
	seen := map[string]bool{}
	for s.mistake == "" && s.tokens.More() {
		offset, key := s.next(), ""
		if n.kind == isObject {
			token, _ := s.tokens.Token()
			key, _ = token.(string)
		}
		child := s.value(n, depth)
		child.key, child.offset, child.index = key, offset, int32(len(n.children))
		if n.kind == isObject && seen[key] {
			s.duplicates = append(s.duplicates, child)
			continue
		}
		seen[key] = true
		n.children = append(n.children, child)
	}
	if s.mistake == "" {
		_, _ = s.tokens.Token() // the end
	}
}
