package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
)

// MaxBytes is the length of the longest document.
const MaxBytes = 1 << 20

// maxDepth is how deep a document nests.
const maxDepth = 12

// node is a JSON value with its path. encoding/json alone stops at the first mistake,
// lets a duplicate win in silence and forgets where a value stood.
type node struct {
	path    string
	value   any       // string, json.Number, bool or nil; nil for an object or a list
	kind    string    // as messages call it
	members []*member // of an object, in file order
	items   []*node   // of a list
}

type member struct {
	key  string
	node *node
}

// Kinds of node.
const (
	isObject  = "an object"
	isList    = "a list"
	isString  = "a string"
	isNumber  = "a number"
	isBoolean = "a boolean"
	isNull    = "null"
)

// String returns the value as a message shows it, shortened.
func (n *node) String() string {
	switch n.kind {
	case isString:
		return strconv.Quote(shorten(n.value.(string)))
	case isNumber:
		return shorten(n.value.(json.Number).String())
	case isBoolean:
		return strconv.FormatBool(n.value.(bool))
	}
	return n.kind
}

// maxShown is how much of a text a message or a path shows.
const maxShown = 64

func shorten(s string) string {
	if len(s) > maxShown {
		return s[:maxShown] + "..."
	}
	return s
}

// tree reads a document into nodes. Duplicates are noted in problems; what is not
// JSON at all is an error.
func tree(document []byte, problems *Problems) (*node, error) {
	if len(document) > MaxBytes {
		return nil, fmt.Errorf("the document has %d bytes, at most %d are allowed", len(document), MaxBytes)
	}
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	root, err := read(d, "", 0, problems)
	if err != nil {
		return nil, located(document, d, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, located(document, d, errors.New("data after the end of the document"))
	}
	return root, nil
}

// located adds the line of the document that the decoder has reached.
func located(document []byte, d *json.Decoder, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the document ends too early")
	}
	at := min(int(d.InputOffset()), len(document))
	return fmt.Errorf("line %d: %w", 1+bytes.Count(document[:at], []byte("\n")), err)
}

func read(d *json.Decoder, path string, depth int, problems *Problems) (*node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxDepth)
	}
	n := &node{path: path, value: token}
	switch token := token.(type) {
	case string:
		n.kind = isString
	case json.Number:
		n.kind = isNumber
	case bool:
		n.kind = isBoolean
	case nil:
		n.kind = isNull
	case json.Delim:
		n.value = nil
		if token == '{' {
			n.kind = isObject
			err = n.readMembers(d, depth, problems)
		} else {
			n.kind = isList
			err = n.readItems(d, depth, problems)
		}
		if err == nil {
			_, err = d.Token() // the closing bracket
		}
	}
	return n, err
}

func (n *node) readMembers(d *json.Decoder, depth int, problems *Problems) error {
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		child, err := read(d, join(n.path, key), depth+1, problems)
		if err != nil {
			return err
		}
		if seen[key] {
			problems.add(child.path, "stands twice in one object")
			continue
		}
		seen[key] = true
		n.members = append(n.members, &member{key, child})
	}
	return nil
}

func (n *node) readItems(d *json.Decoder, depth int, problems *Problems) error {
	for d.More() {
		child, err := read(d, n.path+"["+strconv.Itoa(len(n.items))+"]", depth+1, problems)
		if err != nil {
			return err
		}
		n.items = append(n.items, child)
	}
	return nil
}

var plainKey = regexp.MustCompile(`^[A-Za-z_$*][A-Za-z0-9_*-]*$`)

// join returns the path of a member.
func join(path, key string) string {
	switch {
	case len(key) > maxShown || !plainKey.MatchString(key):
		return path + "[" + strconv.Quote(shorten(key)) + "]"
	case path == "":
		return key
	}
	return path + "." + key
}
