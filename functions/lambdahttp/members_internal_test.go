package lambdahttp

import (
	"encoding/json"
	"maps"
	"testing"
)

// The members of an object are those that encoding/json finds, and their offsets are right.
func FuzzMembersIn(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { } `, `{"a":1}`, `{"a":{"b":["}",{"c":"\\"}]},"d" : -0.5e+10 , "e":null}`, `{"\u0061\"":"\\\"","a":"b"}`, `{"":""}`,
		"{\"\xff\":\"\xfe\"}", `{"a":1} x`, `{"a":1,}`, `[]`, `{"a":true,"a":false}`, `{"a":[1e400],"b":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var want map[string]json.RawMessage
		if err := json.Unmarshal(text, &want); (err == nil && want != nil) != isObject(text) {
			t.Fatalf("%q: isObject: got %v, want %v", text, isObject(text), err)
		} else if !isObject(text) {
			return
		}
		got := map[string]json.RawMessage{}
		for name, m := range membersIn(text) {
			got[string([]rune(string(name)))] = text[m.start:m.end]
			if string(m.value) != string(text[m.start:m.end]) || !json.Valid(append(append([]byte{'{'}, m.pair...), '}')) {
				t.Fatalf("%q: got member %+v, want parts of the text", text, m)
			}
		}
		if !maps.EqualFunc(got, want, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
			t.Fatalf("%q: got %q, want %q", text, got, want)
		}
	})
}
