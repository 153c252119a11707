package lambdahttp

import (
	"bytes"
	"errors"
	"fmt"
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

var errNoObject = errors.New("want a JSON object")

// eachMember calls visit with the decoded name and the rest of each member of the object in text. It validates the text. The name
// is valid until visit returns. A text of 6 MB can have a million members, so eachMember keeps none.
func eachMember(text []byte, visit func(name []byte, m member) error) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if d.PeekKind() != '{' {
		return errNoObject
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	var decoded []byte
	for d.PeekKind() != '}' {
		name, err := d.ReadValue()
		if err != nil {
			return err
		}
		begin := int(d.InputOffset()) - len(name)
		decoded, err = jsontext.AppendUnquote(decoded[:0], name)
		if len(decoded) == 0 && err != nil {
			return err
		}
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		end := int(d.InputOffset())
		start := end - len(value)
		if err := visit(decoded, member{"", text[begin:end], text[start:end], start, end}); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	if len(bytes.TrimSpace(text[d.InputOffset():])) > 0 {
		return errors.New("data after the JSON object")
	}
	return nil
}

// maxMembers bounds the members that allMembers returns. No host accepts so many header fields.
const maxMembers = 8192

func allMembers(text []byte) (members []member, err error) {
	err = eachMember(text, func(name []byte, m member) error {
		if len(members) == maxMembers {
			return fmt.Errorf("got more than %d members, want at most that", maxMembers)
		}
		m.name = string(name)
		members = append(members, m)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return members, nil
}

// membersOf returns those members of the object in text that are named. If several members have the name, it returns
// the last one, as hosts do. others is true if the object has members of other names.
func membersOf(text []byte, names ...string) (members []member, others bool, err error) {
	err = eachMember(text, func(name []byte, m member) error {
		i := slices.IndexFunc(names, func(n string) bool { return n == string(name) })
		if i < 0 {
			others = true
			return nil
		}
		m.name = names[i]
		if before := find(members, m.name); before != nil {
			*before = m
		} else {
			members = append(members, m)
		}
		return nil
	})
	return members, others, err
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
