package lambdahttp_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/weir-limits/weir/functions/lambdahttp"
)

// decoded decodes an event with encoding/json, with case-sensitive names.
func decoded(payload []byte) (e lambdahttp.AuthorizerEvent, err error) {
	members := func(raw json.RawMessage) (m map[string]json.RawMessage) {
		if len(raw) > 0 {
			err = errors.Join(err, json.Unmarshal(raw, &m))
		}
		return m
	}
	text := func(raw json.RawMessage) (s string) {
		if len(raw) > 0 {
			err = errors.Join(err, json.Unmarshal(raw, &s))
		}
		return s
	}
	event := members(append(json.RawMessage{}, payload...))
	if err != nil {
		return e, err
	}
	context := members(event["requestContext"])
	e.Type, e.MethodARN, e.Method, e.Path = text(event["type"]), text(event["methodArn"]), text(event["httpMethod"]), text(event["path"])
	e.Domain, e.SourceIP = text(context["domainName"]), text(members(context["identity"])["sourceIp"])
	e.Header = http.Header{}
	single, multi := members(event["headers"]), members(event["multiValueHeaders"])
	add := func(name string, values ...string) {
		if name = http.CanonicalHeaderKey(name); name == "Authorization" || name == "X-Api-Key" {
			e.Header[name] = append(e.Header[name], values...)
		}
	}
	for name, raw := range multi {
		if canonical := http.CanonicalHeaderKey(name); canonical == "Authorization" || canonical == "X-Api-Key" {
			var values []string
			err = errors.Join(err, json.Unmarshal(raw, &values))
			add(name, values...)
		}
	}
	for name, raw := range single {
		if canonical := http.CanonicalHeaderKey(name); canonical == "Authorization" || canonical == "X-Api-Key" {
			if value := text(raw); len(multi) == 0 {
				add(name, value)
			}
		}
	}
	return e, err
}

// normal returns e with sorted values, because a Go map has no order. It removes fields that have no
// values.
func normal(e lambdahttp.AuthorizerEvent) lambdahttp.AuthorizerEvent {
	for name, values := range e.Header {
		slices.Sort(values)
		if len(values) == 0 {
			delete(e.Header, name)
		}
	}
	return e
}

// FuzzAuthorizerEvent compares the parser with encoding/json. They must agree unless a member
// repeats. If a member repeats, the parser must still reject text that is not JSON.
func FuzzAuthorizerEvent(f *testing.F) {
	for _, name := range []string{"anonymous", "user", "apikey"} {
		var compact bytes.Buffer
		if err := json.Compact(&compact, sampleEvent(f, "rest-authorizer-"+name+".json")); err != nil {
			f.Fatal(err)
		}
		f.Add(compact.Bytes())
	}
	for _, seed := range []string{
		``, `null`, `[]`, `{}`, `{}{}`, `{} x`, `{"type":`, `{"type":null,"path":5}`, `{"headers":null,"multiValueHeaders":null,"requestContext":null}`,
		`{"headers":{"AUTHORIZATION":"a","x-api-key":"\ud800"},"multiValueHeaders":{}}`, `{"headers":{"x-api-key":"k"},"multiValueHeaders":{"accept":[]}}`,
		`{"multiValueHeaders":{"authorization":["a",null,"b"],"Authorization":["c"]}}`, `{"multiValueHeaders":{"authorization":["a"]},"headers":{"authorization":"b","x-api-key":"k"}}`, `{"multiValueHeaders":{"authorization":"a"}}`, `{"multiValueHeaders":{"authorization":null}}`,
		`{"t\u0079pe":"REQUEST","Path":"/x","path":"/\u0061\ud83d\ude00\/"}`, "{\"path\":\"/\xff\",\"headers\":{\"x-\xff\":\"\xfe\"}}", `{"requestContext":{"identity":{"sourceIp":"::1"},"domainName":"a"}}`,
		`{"requestContext":[],"x":-0.5e+10}`, `{"x":01}`, `{"x":[1,]}`, `{"x":{"a":1,}}`, `{"x" 1}`, "{\"x\":\"\n\"}", `{"headers":{"` + "x-api-\u212aey" + `":"k"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		sent := bytes.Clone(payload)
		got, err := lambdahttp.ParseAuthorizerEvent(payload)
		if !bytes.Equal(payload, sent) {
			t.Fatalf("payload: got %q, want it unchanged: %q", payload, sent)
		}
		if err == nil && !json.Valid(payload) {
			t.Fatalf("%q: got no error, want an error, because it is not JSON", payload)
		}
		// If a member repeats in an object, encoding/json can return other values.
		if !jsontext.Value(payload).IsValid(jsontext.AllowInvalidUTF8(true)) {
			return
		}
		want, failed := decoded(payload)
		if (err == nil) != (failed == nil) {
			t.Fatalf("%q: got error %v, want %v", payload, err, failed)
		}
		if err == nil && !reflect.DeepEqual(normal(got), normal(want)) {
			t.Fatalf("%q:\n got %+v\nwant %+v", payload, got, want)
		}
	})
}

// A repeated member never hides a second credential, wherever it is in the event.
func TestAttack_repeatMember(t *testing.T) {
	const good, bad = `"Bearer a.b.c"`, `"Bearer x"`
	for _, headers := range []string{
		`"headers":{"Authorization":` + good + `,"Authorization":` + bad + `}`,
		`"headers":{"Authorization":` + bad + `,"authorization":` + good + `}`,
		`"headers":{"Authorization":` + good + `},"headers":{"Authorization":` + bad + `}`,
		`"multiValueHeaders":{"Authorization":[` + good + `],"AUTHORIZATION":[` + bad + `]}`,
		`"multiValueHeaders":{"Authorization":[` + good + `,` + bad + `]}`,
		`"multiValueHeaders":{"Authorization":[` + good + `]},"multiValueHeaders":{"Authorization":[` + bad + `]}`,
		`"multiValueHeaders":{"Authorization":[` + good + `],"Authoriz\u0061tion":[` + bad + `]}`,
	} {
		e, err := lambdahttp.ParseAuthorizerEvent([]byte(`{"type":"REQUEST",` + headers + `}`))
		if values := e.Header["Authorization"]; err != nil || len(values) != 2 {
			t.Errorf("%s: got %q and error %v, want both values", headers, values, err)
		}
	}
}

// The time and memory for an event depend only on its size and not on its depth.
func TestAttack_deepEvent(t *testing.T) {
	for _, deep := range []string{strings.Repeat("[", 3_000_000), strings.Repeat(`{"a":`, 1_000_000), `{"headers":{"a":` + strings.Repeat("[", 1_000_000)} {
		if _, err := lambdahttp.ParseAuthorizerEvent([]byte(`{"x":` + deep)); err == nil {
			t.Errorf("%.20s...: got no error, want one", deep)
		}
	}
	for _, size := range []int{1, 100_000} {
		var b strings.Builder
		for i := range size {
			fmt.Fprintf(&b, `"h%d":["%d"],`, i, i)
		}
		event := []byte(`{"type":"REQUEST","multiValueHeaders":{` + b.String() + `"Authorization":["Bearer x"]}}`)
		allocs := testing.AllocsPerRun(1, func() {
			if e, err := lambdahttp.ParseAuthorizerEvent(event); err != nil || len(e.Header) != 1 {
				t.Errorf("%d header fields: got header %v and error %v, want only Authorization and no error", size, e.Header, err)
			}
		})
		if allocs > 40 {
			t.Errorf("%d header fields: got %v allocations, want at most 40", size, allocs)
		}
	}
}

// An invocation allocates little, because allocations cost time on a small function.
func TestAuthorizer_allocations(t *testing.T) {
	for _, file := range []string{"rest-authorizer-anonymous.json", "rest-authorizer-apikey.json"} {
		authorizer, event := lambdahttp.NewAuthorizer(memory(t)), sampleEvent(t, file)
		allocs := testing.AllocsPerRun(100, func() {
			if _, err := authorizer.Invoke(ctx, event); err != nil {
				t.Fatal(err)
			}
		})
		if allocs > 60 {
			t.Errorf("%s: got %v allocations, want at most 60", file, allocs)
		}
	}
}
