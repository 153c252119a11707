package lambdahttp

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// object is a JSON object whose values are not decoded. nil stands for no object.
type object map[string]json.RawMessage

// objectOf returns the object in a text, or nil for null, for other values, and for a text that is no JSON. If several
// members have a name, it has the last one, as for hosts.
func objectOf(text []byte) (o object) {
	_ = json.Unmarshal(text, &o)
	return o
}

// has reports whether o has a member whose value is not null.
func (o object) has(name string) bool {
	value, ok := o[name]
	return ok && string(value) != "null"
}

func (o object) remove(names func(string) bool) {
	maps.DeleteFunc(o, func(name string, _ json.RawMessage) bool { return names(name) })
}

// text returns the JSON text of o, with the bytes of the values.
func (o object) text() []byte {
	parts, separator := [][]byte{[]byte("{")}, []byte(nil)
	for _, name := range slices.Sorted(maps.Keys(o)) {
		parts, separator = append(parts, separator, encoded(name), []byte(":"), o[name]), []byte(",")
	}
	return slices.Concat(append(parts, []byte("}"))...)
}

// encoded returns a value as JSON.
func encoded(value any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // it would make an answer larger
	_ = e.Encode(value)
	return bytes.TrimSpace(b.Bytes())
}

// unquoted returns the value of a JSON string. It returns other text unchanged.
func unquoted(text []byte) string {
	var value string
	if json.Unmarshal(text, &value) != nil {
		return string(text)
	}
	return value
}

// sameField returns a function that reports whether a name is that of a header field, whatever its spelling.
func sameField(field string) func(name string) bool {
	return func(name string) bool { return strings.EqualFold(name, field) }
}
