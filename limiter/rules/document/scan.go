package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxBytes is the length of the longest document.
const MaxBytes = 1 << 20

// maxDepth is the largest nesting depth of a document.
const maxDepth = 12

// maxValues is the largest number of values in a document. An honest document of MaxBytes has fewer. It bounds
// the memory that a hostile document needs.
const maxValues = 200_000

// node is a JSON value with its place in the text. encoding/json is not enough: it stops at the first
// mistake, accepts duplicate names, and does not return the place of a value.
type node struct {
	parent   *node
	key      string // name of the value in an object
	index    int32  // index of the value in a list
	end      int32  // offset of the first byte after the value
	offset   int32  // offset of the member's name or, in a list, of the value
	value    any    // string, json.Number, bool or nil; nil for an object or a list
	kind     kind
	members  []*node // members of an object, in file order
	elements []*node // elements of a list
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

// child returns the child of n whose path begins the string rest, and the part of rest behind it. It returns nil
// if there is none. rest is a path without the path of n.
func (n *node) child(rest string) (*node, string) {
	if n.kind == isList {
		number, after, _ := strings.Cut(strings.TrimPrefix(rest, "["), "]")
		if i, err := strconv.Atoi(number); err == nil && 0 <= i && i < len(n.elements) {
			return n.elements[i], after
		}
		return nil, rest
	}
	dot := ""
	if n.parent != nil {
		dot = "."
	}
	for _, c := range n.members {
		if after, ok := strings.CutPrefix(rest, dot+c.key); ok && (after == "" || after[0] == '.' || after[0] == '[') && isPlainKey(c.key) {
			return c, after
		}
		if strings.HasPrefix(rest, `["`) && !isPlainKey(c.key) {
			if after, ok := strings.CutPrefix(rest, Join("", c.key)); ok {
				return c, after
			}
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

// syntaxError is the first place where a text is not valid JSON.
type syntaxError struct {
	offset  int
	message string
}

func (e *syntaxError) Error() string { return e.message }

func (e *syntaxError) problem(text []byte) Problem {
	column := e.offset - bytes.LastIndexByte(text[:e.offset], '\n')
	return Problem{Line: line(text, e.offset), Column: column, Message: e.message}
}

// scanner reads JSON into nodes.
type scanner struct {
	text       []byte
	at         int
	values     int
	duplicates []*node // members with the name of an earlier member
}

// byteOrderMark is an invisible mark that some editors write before UTF-8 text. JSON does not allow
// it.
const byteOrderMark = "\xef\xbb\xbf"

// document reads the text, which must contain one value.
func (s *scanner) document() (*node, error) {
	if bytes.HasPrefix(s.text, []byte(byteOrderMark)) {
		return nil, s.errorf("the document begins with a byte order mark; save it as UTF-8 without the mark")
	}
	root, err := s.value(nil, 0)
	if err != nil {
		return nil, err
	}
	if s.space(); s.at < len(s.text) {
		return nil, s.unexpected("the end of the document")
	}
	return root, nil
}

func (s *scanner) errorf(format string, args ...any) error {
	return &syntaxError{s.at, fmt.Sprintf(format, args...)}
}

func (s *scanner) space() {
	for s.at < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.at]) >= 0 {
		s.at++
	}
}

// peek returns the next byte. It returns 0 at the end.
func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

// skip skips white space and the byte c. It returns false if the next byte is not c.
func (s *scanner) skip(c byte) bool {
	if s.space(); s.peek() != c {
		return false
	}
	s.at++
	return true
}

func (s *scanner) value(parent *node, depth int) (n *node, err error) {
	s.space()
	if depth > maxDepth {
		return nil, s.errorf("nested more than %d deep", maxDepth)
	}
	if s.values++; s.values > maxValues {
		return nil, s.errorf("more than %d values", maxValues)
	}
	n = &node{parent: parent, offset: int32(s.at)}
	switch c := s.peek(); {
	case c == '{':
		n.kind, err = isObject, s.members(n, depth)
	case c == '[':
		n.kind, err = isList, s.elements(n, depth)
	case c == '"':
		n.kind = isString
		n.value, err = s.string()
	case c == '-' || '0' <= c && c <= '9':
		end := s.at + numberLength(s.text[s.at:])
		if end == s.at {
			return nil, s.unexpected("a number")
		}
		n.kind, n.value = isNumber, json.Number(s.text[s.at:end])
		s.at = end
	case s.word("true"):
		n.kind, n.value = isBoolean, true
	case s.word("false"):
		n.kind, n.value = isBoolean, false
	case s.word("null"):
		n.kind = isNull
	default:
		err = s.unexpected("a value")
	}
	n.end = int32(s.at)
	return n, err
}

// word skips a word. It returns false if the word does not follow.
func (s *scanner) word(word string) bool {
	if !bytes.HasPrefix(s.text[s.at:], []byte(word)) {
		return false
	}
	s.at += len(word)
	return true
}

func (s *scanner) members(n *node, depth int) error {
	s.at++
	if s.skip('}') {
		return nil
	}
	seen := map[string]bool{}
	for {
		if s.space(); s.peek() != '"' {
			return s.unexpected("a name in double quotes")
		}
		offset := s.at
		key, err := s.string()
		if err != nil {
			return err
		}
		if !s.skip(':') {
			return s.unexpected(`":" after the name`)
		}
		child, err := s.value(n, depth+1)
		if err != nil {
			return err
		}
		child.key, child.offset = key, int32(offset)
		if seen[key] {
			s.duplicates = append(s.duplicates, child)
		} else {
			seen[key] = true
			n.members = append(n.members, child)
		}
		switch {
		case s.skip('}'):
			return nil
		case !s.skip(','):
			return s.unexpected(`"," or "}"`)
		}
	}
}

func (s *scanner) elements(n *node, depth int) error {
	s.at++
	if s.skip(']') {
		return nil
	}
	for {
		child, err := s.value(n, depth+1)
		if err != nil {
			return err
		}
		child.index = int32(len(n.elements))
		n.elements = append(n.elements, child)
		switch {
		case s.skip(']'):
			return nil
		case !s.skip(','):
			return s.unexpected(`"," or "]"`)
		}
	}
}

func (s *scanner) string() (string, error) {
	begin := s.at
	for s.at++; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return unquote(s.text[begin:s.at]), nil
		case c < ' ':
			return "", s.errorf("got a control character in a string (%#02x): escape the character, or close the string with a double quote", c)
		case c == '\\':
			length := escapeLength(s.text[s.at:])
			if length == 0 {
				return "", s.errorf(`got an invalid escape sequence in a string, want \" \\ \/ \b \f \n \r \t or \u and four hexadecimal digits`)
			}
			s.at += length - 1
		}
	}
	s.at = begin
	return "", s.errorf("no end of the string that begins here, want a double quote")
}

// unquote returns the value of a valid JSON string. It replaces bytes that are not UTF-8 with U+FFFD.
func unquote(raw []byte) (value string) {
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	_ = json.Unmarshal(raw, &value) // the scanner has validated raw
	return value
}

// unexpected returns the error of an unexpected text, with a remedy for common mistakes. It shows
// only one character, because the text may be a secret that was passed by mistake.
func (s *scanner) unexpected(want string) error {
	rest := s.text[s.at:]
	got, _ := utf8.DecodeRune(rest)
	switch {
	case len(rest) == 0:
		return s.errorf("the document ends too early, want %s", want)
	case bytes.HasPrefix(rest, []byte("//")) || bytes.HasPrefix(rest, []byte("/*")) || got == '#':
		want += "; JSON has no comments; use the field note"
	case got == '\'':
		want += "; JSON has no single quotes"
	case (got == '}' || got == ']') && bytes.HasSuffix(bytes.TrimRight(s.text[:s.at], " \t\r\n"), []byte(",")):
		want += "; remove the comma before this character"
	}
	return s.errorf("got %q, want %s", got, want)
}
