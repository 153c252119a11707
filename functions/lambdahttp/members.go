package lambdahttp

import (
	"bytes"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// member is a member of a JSON object. name, value and pair are parts of the text of the object.
type member struct {
	name       string // decoded name
	pair       []byte // the name and the value, as in the text
	value      []byte
	start, end int // offsets of value in the text
}

// errNoObject means that a text is not one JSON object.
var errNoObject = errors.New("want a JSON object")

// membersOf returns the members of the object in text. It validates the text, and decodes only the names.
func membersOf(text []byte) ([]member, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if d.PeekKind() != '{' {
		return nil, errNoObject
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	members := make([]member, 0, 16)
	for d.PeekKind() != '}' {
		name, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		begin := int(d.InputOffset()) - len(name)
		decoded, err := jsontext.AppendUnquote(nil, name)
		if len(decoded) == 0 && err != nil {
			return nil, err
		}
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		end := int(d.InputOffset())
		start := end - len(value)
		members = append(members, member{string(decoded), text[begin:end], text[start:end], start, end})
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(text[d.InputOffset():])) > 0 {
		return nil, errors.New("data after the JSON object")
	}
	return members, nil
}

// last returns the last member with a name, which is the one that hosts read. It returns nil if there is none.
func last(members []member, name string) *member {
	for i := range slices.Backward(members) {
		if members[i].name == name {
			return &members[i]
		}
	}
	return nil
}

// null reports whether m is nil or has the value null.
func (m *member) null() bool { return m == nil || string(m.value) == "null" }
