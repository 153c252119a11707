package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

const (
	// maxTemplate is CloudFormation's limit on the size of a template.
	maxTemplate = 1 << 20
	// maxDepth is the maximum nesting depth of a template's values. Real templates need far less.
	maxDepth = 64
)

// location is the position of a value in a document. It becomes text only for an error message,
// because the texts of all positions of a hostile document would fill the memory.
type location struct {
	parent *location
	key    string // key of the value, if its parent is an object
	index  int    // index of the value, if its parent is a list
	depth  int
}

func (l *location) child(key string, index int) *location {
	return &location{parent: l, key: key, index: index, depth: l.depth + 1}
}

func (l *location) String() string {
	switch {
	case l.parent == nil:
		return ""
	case l.key == "":
		return l.parent.String() + "[" + strconv.Itoa(l.index) + "]"
	}
	return join(l.parent.String(), l.key)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// decodeDocument decodes one JSON object to maps, lists, strings, json.Numbers, booleans and nil.
// It reports a duplicate key; encoding/json would silently drop the first value.
func decodeDocument(data []byte, p *problems) (map[string]any, error) {
	if len(data) > maxTemplate {
		return nil, fmt.Errorf("template: got %d bytes, want at most %d", len(data), maxTemplate)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	value, err := decodeValue(d, &location{}, p)
	if err != nil {
		return nil, fmt.Errorf("template: byte %d: %w", d.InputOffset(), err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("template: data after the document")
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("template: want a JSON object")
	}
	return object, nil
}

func decodeValue(d *json.Decoder, at *location, p *problems) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	if at.depth > maxDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxDepth)
	}
	switch token {
	case json.Delim('{'):
		return decodeObject(d, at, p)
	case json.Delim('['):
		list := []any{}
		for d.More() {
			value, err := decodeValue(d, at.child("", len(list)), p)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err := d.Token()
		return list, err
	}
	return token, nil
}

func decodeObject(d *json.Decoder, at *location, p *problems) (any, error) {
	object := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, ok := token.(string)
		if !ok {
			return nil, fmt.Errorf("got %v, want a key", token)
		}
		here := at.child(key, 0)
		if _, twice := object[key]; twice {
			p.add(here.String(), "given twice")
		}
		if object[key], err = decodeValue(d, here, p); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return object, err
}
