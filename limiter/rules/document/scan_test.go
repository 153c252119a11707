package document

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// plain returns the value of a node in the form of encoding/json.
func (n *node) plain() any {
	switch n.kind {
	case isObject:
		object := map[string]any{}
		for _, m := range n.children {
			object[m.key] = m.plain()
		}
		return object
	case isList:
		list := []any{}
		for _, item := range n.children {
			list = append(list, item.plain())
		}
		return list
	case isString, isNumber, isBoolean, isNull:
	}
	return n.value
}

// FuzzScan searches for a text that the scanner and encoding/json parse differently.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,2.5e-3,-0,true,false,null,"x\n\u00e9\ud83d\ude00\ud800"]}`, `[]`, `{}`, ` 1 `, `01`, `-`, `1.`, `.5`, `1e`, `+1`, `"`, `"\x"`,
		`"\u12"`, "\"\x01\"", "\"\xff\"", `[1,]`, `{"a":1,}`, `{"a"}`,
		`{,}`, `[,]`, `tru`, `truex`, `nullnull`, `1 2`, `{"a":1 "b":2}`, "\ufeff{}", ``, `"a`, `[`, `{"a":`, `{"a":1}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, root := scan([]byte(text))
		if strings.HasPrefix(s.mistake, "nested") {
			return
		}
		if valid := json.Valid([]byte(text)); valid != (s.mistake == "") || s.at > len(text) {
			t.Fatalf("%q: got mistake %q at %d, but encoding/json accepts the text: %t", text, s.mistake, s.at, valid)
		} else if !valid {
			return
		}
		if len(s.duplicates) > 0 { // the scanner keeps the first duplicate, encoding/json keeps the last
			return
		}
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		var want any
		if err := d.Decode(&want); err != nil || !reflect.DeepEqual(root.plain(), want) {
			t.Fatalf("%q: got %v, want %v as from encoding/json (error %v)", text, root.plain(), want, err)
		}
	})
}

// DidYouMean compares a bounded number of words, even if there are many more words.
func TestDidYouMean_bounded(t *testing.T) {
	words := slices.Repeat([]string{"another"}, 100_000)
	words[0], words[maxCompared], words[maxCompared+1] = "limit-2", "limit-1", "limits"
	if got, want := DidYouMean("limit-1", words), ` (did you mean "limit-2"?)`; got != want {
		t.Errorf("suggestion: got %q, want %q", got, want)
	}
	far := append(slices.Repeat([]string{"a much longer name"}, 1000), "limit-1")
	if got, want := DidYouMean("limit-2", far), ` (did you mean "limit-1"?)`; got != want {
		t.Errorf("after words of other lengths: got %q, want %q", got, want)
	}
}

func TestDidYouMean(t *testing.T) {
	words := []string{"token_bucket", "leaky_bucket", "sliding_log", "GET", "per"}
	for got, want := range map[string]string{
		"token_buket": "token_bucket", "Token_Bucket": "token_bucket", "tokenbucket": "token_bucket", "get": "GET", "pre": "per", "gcra": "",
		"x": "", "": "",
		strings.Repeat("token_bucket", 1000): "",
	} {
		if want != "" {
			want = ` (did you mean "` + want + `"?)`
		}
		if meant := DidYouMean(got, words); meant != want {
			t.Errorf("%q: got %q, want %q", Shorten(got), meant, want)
		}
	}
}
