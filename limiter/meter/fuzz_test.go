package meter_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"testing"

	"github.com/weir-limits/weir/limiter/meter"
)

// A scanner finds in valid JSON what a parser finds, and two pieces give the same as a whole.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		bedrock, openAIChat, anthropic, `{"a":{"b":1,"b":2},"a":{"b":-3}}`, "{\"\\u0061\":{\"b\":1e2}}", `[{"a":{"b":1}}]`,
	} {
		f.Add([]byte(body), uint(len(body)/2), false)
		f.Add([]byte(body), uint(3), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, cut uint, events bool) {
		s, kind := source(t, "a.b"), asJSON
		if events {
			kind = asEvents
		}
		read := func(pieces ...[]byte) (string, int64) {
			a := meter.NewAnswer(s)
			a.Begin(http.Header{"Content-Type": {kind}})
			for _, p := range pieces {
				_, _ = a.Write(p)
			}
			n, _, err := a.Cost(s, nil, "")
			return strconv.Quote(errorText(err)), n
		}
		problem, n := read(body)
		at := int(cut % uint(len(body)+1))
		if again, m := read(body[:at], body[at:]); m != n || again != problem {
			t.Errorf("pieces: got %d, %s, want %d, %s", m, again, n, problem)
		}
		if want, ok := reference(body); !events && json.Valid(body) && ok && n != want {
			t.Errorf("got %d, %s, want %d", n, problem, want)
		}
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// reference returns the number at a.b, of the last a and its last b. ok is false if the number is no cost, or other rules apply.
func reference(body []byte) (n int64, ok bool) {
	var root map[string]json.RawMessage // of a repeated name, the last value counts
	var a map[string]json.RawMessage
	if json.Unmarshal(body, &root) != nil || bytes.Count(body, []byte("a")) > 1 || json.Unmarshal(root["a"], &a) != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(a["b"]), 10, 64)
	return n, err == nil && n >= 0 && n <= meter.Most && bytes.Count(body, []byte("{")) < 500 && bytes.Count(body, []byte("[")) < 10
}

// Of a body that is not refused, parsers that are strict about names and those that are not read the same model and number.
func FuzzReadRequest(f *testing.F) {
	for _, body := range []string{`{"model":"small","max_tokens":50}`, `{"Model":"a","model":"b"}`, `{"limits":{"max":5},"model":"x"}`, `[]`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := priced(t)
		r, err := meter.ReadRequest(nil, body, s)
		var exact map[string]any
		var folded struct {
			Model string `json:"model"`
			Max   int64  `json:"max_tokens"`
		}
		if r == nil || err != nil || json.Unmarshal(body, &exact) != nil || json.Unmarshal(body, &folded) != nil {
			return
		}
		if model, ok := exact["model"].(string); folded.Model != model || !ok && exact["model"] != nil {
			t.Errorf("%q: got the model %q, and %q of a parser that folds names", body, model, folded.Model)
		}
		if n, ok := exact["max_tokens"].(float64); ok != (folded.Max != 0) && n != 0 || ok && int64(n) != folded.Max {
			t.Errorf("%q: got %g, and %d of a parser that folds names", body, n, folded.Max)
		}
	})
}

// Of a body that is not refused, a parser that is strict about names reads the same call.
func FuzzReadCall(f *testing.F) {
	for _, body := range []string{`{"method":"tools/call","params":{"name":"a"}}`, `{"method":"resources/read","params":{"uri":"a","name":1}}`,
		`{"result":{}}`, `[{"method":"a"}]`, `{"Method":"a","method":"b"}`, `{"method":"a","params":{"\u006eame":"b","name":"c"}}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		call, err := meter.ReadCall(nil, body)
		var exact map[string]any
		if err != nil {
			return
		}
		if err := json.Unmarshal(body, &exact); err != nil {
			t.Fatalf("%q: got %+v, but the body is no object", body, call)
		}
		method, _ := exact["method"].(string)
		params, _ := exact["params"].(map[string]any)
		name, _ := params[map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri", "resources/subscribe": "uri",
			"resources/unsubscribe": "uri"}[method]].(string)
		if call != (meter.Call{Method: method, Name: name}) {
			t.Errorf("%q: got %+v, want %q and %q", body, call, method, name)
		}
	})
}
