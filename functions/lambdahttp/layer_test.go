package lambdahttp_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
	"weak"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// one allows one request a second, so that the fields of the first decision are known.
const one = `{"rules":[{"endpoint":"*","limits":{"global":{"name":"one","requests":1,"window":"1s","per":["ip"]}}}]}`

// These are the fields of the first decision of one, as members of an object.
const (
	fields = `"RateLimit":"\"one\";r=0;t=1","RateLimit-Policy":"\"one\";q=1;w=1","X-RateLimit-Limit":"1","X-RateLimit-Remaining":"0",` +
		`"X-RateLimit-Reset":"1772625601"`
	lists = `"RateLimit":["\"one\";r=0;t=1"],"RateLimit-Policy":["\"one\";q=1;w=1"],"X-RateLimit-Limit":["1"],` +
		`"X-RateLimit-Remaining":["0"],"X-RateLimit-Reset":["1772625601"]`
)

// undecidedREST is an event of a REST API without Weir's authorizer.
func undecidedREST(t testing.TB) []byte {
	t.Helper()
	return changed(t, sampleEvent(t, "rest-proxy-anonymous.json"), `"weir": "allowed"`, `"org": "acme"`)
}

// listEvent is the event of a load balancer with multi-value headers.
func listEvent(t testing.TB) []byte {
	t.Helper()
	return edited(t, "alb-anonymous.json", func(e map[string]any) {
		lists := map[string][]string{}
		for name, value := range e["headers"].(map[string]any) {
			lists[name] = []string{value.(string)}
		}
		delete(e, "headers")
		e["multiValueHeaders"] = lists
	})
}

func limitedBy(t testing.TB, document string) *lambdahttp.Environment {
	t.Helper()
	e := memory(t)
	e.Rules = storetest.Must(fixed(rules.Parse([]byte(document), rules.Options{Version: 1})))
	return e
}

// answered returns the answer of a layer to an event whose function answers with payload.
func answered(t testing.TB, e *lambdahttp.Environment, event []byte, payload string) string {
	t.Helper()
	var got []byte
	own, err := lambdahttp.NewLayer(e).Invoke(ctx, event, func(a *lambdahttp.Admitted) error {
		got = a.Answered([]byte(payload))
		return nil
	})
	if err != nil || own != nil {
		t.Fatalf("answer of the layer: got %+v, %v, want that of the function", own, err)
	}
	return string(got)
}

// An answer gets the fields in the form that its host reads. All other members keep their values, and a text that is no answer its
// bytes.
func TestLayer_answered(t *testing.T) {
	standard, _, _ := strings.Cut(fields, `,"X-`)
	rest, alb, list := undecidedREST(t), sampleEvent(t, "alb-anonymous.json"), listEvent(t)
	api, url := sampleEvent(t, "http-api-anonymous.json"), sampleEvent(t, "function-url-anonymous.json")
	v1 := changed(t, rest, `"resource": "/api/v1/search"`, `"version": "1.0"`)
	for _, c := range []struct {
		name, payload, want string
		events              [][]byte
	}{
		{"headers", ` { "statusCode" : 200, "headers" : { "A":"b" } , "body" : "\u00e4\/" } `, ` { "statusCode" : 200, "headers" : {` + fields +
			`, "A":"b" } , "body" : "\u00e4\/" } `, [][]byte{api, url, rest, v1, alb}},
		{"no member headers", `{"statusCode":"201","cookies":["a=b","c=d"]}`, `{"headers":{` + fields +
			`},"statusCode":"201","cookies":["a=b","c=d"]}`, [][]byte{api, url, rest, v1, alb}},
		{"null headers", `{"headers":null,"statusCode":200}`, `{"headers":{` + fields + `},"statusCode":200}`, [][]byte{api, url, rest, v1, alb}},
		{"only lists", `{"multiValueHeaders":{"A":["b","c"]},"statusCode":200}`, `{"multiValueHeaders":{` + lists +
			`,"A":["b","c"]},"statusCode":200}`, [][]byte{rest, v1, list}},
		{"a load balancer with lists", `{"statusCode":200}`, `{"multiValueHeaders":{` + lists + `},"statusCode":200}`, [][]byte{list}},
		{"the function's own field", `{"statusCode":200,"headers":{"x-ratelimit-limit":"7"}}`,
			`{"statusCode":200,"headers":{` + standard + `,"x-ratelimit-limit":"7"}}`,
			[][]byte{api, url, rest, v1, alb}},
		{"the function's own refusal", `{"statusCode":429,"headers":{"A":"b"}}`, `{"statusCode":429,"headers":{"A":"b"}}`,
			[][]byte{api, url, rest, v1, alb}},
		{"the last of two members", `{"headers":{"A":"b"},"headers":{"C":"d"},"statusCode":200}`, `{"headers":{` + fields +
			`,"C":"d"},"statusCode":200}`, [][]byte{api}},
		{"an escaped name", `{"\u0068eaders":{"A":"b"},"statusCode":200}`, `{"headers":{` + fields + `,"A":"b"},"statusCode":200}`,
			[][]byte{api}},

		{"an inferred object", `{"message":"hi","headers":{}}`, `{"statusCode":200,"headers":{"content-type":"application/json",` + fields +
			`},"body":"{\"message\":\"hi\",\"headers\":{}}"}`, [][]byte{api, url}},
		{"an inferred string", ` "a\u00e4\n" `, `{"statusCode":200,"headers":{"content-type":"application/json",` + fields +
			`},"body":"a\u00e4\n"}`, [][]byte{api, url}},

		{"null", `null`, `null`, [][]byte{api, url, rest, v1, alb}},
		{"no JSON", `oops`, `oops`, [][]byte{api, url, rest, v1, alb}},
		{"empty", ``, ``, [][]byte{api, url, rest, v1, alb}},
		{"no status", `{"message":"hi"}`, `{"message":"hi"}`, [][]byte{rest, v1, alb}},
		{"an invalid status", `{"statusCode":"x"}`, `{"statusCode":"x"}`, [][]byte{api, url, rest, v1, alb}},
		{"a status that is out of range", `{"statusCode":99}`, `{"statusCode":99}`, [][]byte{api, url, rest, v1, alb}},
		{"headers of another type", `{"statusCode":200,"headers":["a"]}`, `{"statusCode":200,"headers":["a"]}`, [][]byte{api, url, rest, v1,
			alb}},
		{"two values", `{"statusCode":200}{}`, `{"statusCode":200}{}`, [][]byte{api, url, rest, v1, alb}},
	} {
		for i, event := range c.events {
			if got := answered(t, limitedBy(t, one), event, c.payload); got != c.want && !sameJSON(got, c.want) {
				t.Errorf("%s: event %d: got %s, want %s", c.name, i, got, c.want)
			}
		}
	}
}

// A field of Weir that the function sets itself keeps the function's value, and an answer that Lambda would reject has no fields.
func TestLayer_keeps(t *testing.T) {
	e := limitedBy(t, one)
	e.CORSOrigins = []string{"*"}
	event := sentBy(t, "http-api-anonymous.json", http.MethodGet, map[string]string{"origin": "https://app.example"})
	got := answered(t, e, event, `{"statusCode":200,"headers":{"access-control-allow-origin":"https://own.example"}}`)
	if strings.Contains(got, `"*"`) || !strings.Contains(got, "X-RateLimit-Limit") {
		t.Errorf("got %s, want the function's own field, and those of the decision", got)
	}
	largest := `{"body":"` + strings.Repeat("x", lambdahttp.MaxAnswer-len(`{"body":"","statusCode":200}`)) + `","statusCode":200}`
	if got := answered(t, limitedBy(t, one), event, largest); got != largest {
		t.Errorf("the largest answer: got %d bytes, want no change of its %d", len(got), len(largest))
	}
}

// sameJSON reports whether two texts are JSON with the same values.
func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// The layer removes the cost field of an answer, and a cost field that the client sent, although no limit of the
// request counts cost.
func TestLayer_uncountedCost(t *testing.T) {
	const cost = `{"endpoint":"/cost","limits":{"global":{"name":"cost","requests":1000,"window":"1h","reserve":1,"count":"cost",` +
		`"per":["ip"]}}}`
	for name, other := range map[string]string{
		"requests": `{"endpoint":"*","limits":{"global":{"name":"some","requests":100,"window":"1h","per":["ip"]}}}`,
		"failures": `{"endpoint":"*","limits":{"global":{"name":"some","requests":100,"window":"1h","count":"failures","per":["ip"]}}}`,
		"exempt":   "",
	} {
		document := `{"rules":[` + cost + `],"exempt":[{"endpoint":"/api/*"}]}`
		if other != "" {
			document = `{"rules":[` + other + `,` + cost + `]}`
		}
		e := limitedBy(t, document)
		event := changed(t, sampleEvent(t, "http-api-anonymous.json"), `"headers": {`, `"headers": {"weir-cost": "5", `)
		_, err := lambdahttp.NewLayer(e).Invoke(ctx, event, func(a *lambdahttp.Admitted) error {
			got := string(a.Answered([]byte(`{"statusCode":200,"headers":{"A":"b","Weir-COST":"7"}}`))) + string(a.Event)
			if strings.Contains(strings.ToLower(got), "weir-cost") {
				t.Errorf("%s: got the answer and the event %.300s, want no cost field", name, got)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// An event that is no HTTP request has no decision.
func TestLayer_foreign(t *testing.T) {
	l := lambdahttp.NewLayer(limitedBy(t, `{"rules":[{"endpoint":"*","limits":{"global":{"name":"none","requests":1,"window":"1h"}}}]}`))
	for _, event := range []string{
		``, `null`, `[]`, `{}`, `"text"`, `{"Records":[{"eventSource":"aws:sqs","body":"{}"}]}`, `{"httpMethod":"GET"}`,
		`{"requestContext":{"connectionId":"a","eventType":"MESSAGE","routeKey":"$default"},"body":"x"}`,
		`{"headers":{"Host":"a"},"multiValueHeaders":{"Host":["a"]},"requestContext":{"connectionId":"a","eventType":"CONNECT",` +
			`"routeKey":"$connect","identity":{"sourceIp":"192.0.2.1"}},"isBase64Encoded":false}`,
		`{"version":"0","detail-type":"a","source":"b","detail":{}}`,
		`{"version":"1.0","requestContext":{"functionArn":"arn","condition":"Success"},"requestPayload":{}}`,
		`{"httpMethod":5,"path":"/"}`,
		`{"version":"2.0","path":"/","method":"GET","headers":{"a":["b"]},"requestContext":{"serviceArn":"arn"}}`,
		`{"version":"2.0","type":"REQUEST","routeArn":"arn:aws:execute-api","rawPath":"/","requestContext":{"http":{"method":"GET"}}}`,
		string(sampleEvent(t, "rest-authorizer-user.json")), string(sampleEvent(t, "report-invoke.json")),
		string(sampleEvent(t, "report-log.json")),
	} {
		for range 2 {
			own, err := l.Invoke(ctx, []byte(event), func(*lambdahttp.Admitted) error {
				t.Errorf("event %s: got a decision, want none",
					event)
				return nil
			})
			if own != nil || !errors.Is(err, lambdahttp.ErrForeign) {
				t.Errorf("event %s: got %+v, %v, want %v", event, own, err, lambdahttp.ErrForeign)
			}
		}
	}
}

// If the Go handler rejects a request, the layer rejects it too. A client cannot avoid the limits with such a
// request.
func TestLayer_rejected(t *testing.T) {
	for _, event := range [][]byte{
		changed(t, sampleEvent(t, "alb-anonymous.json"), `"httpMethod": "GET"`, `"httpMethod": "G T"`),
		changed(t, sampleEvent(t, "alb-anonymous.json"), `"/api/v1/search"`, `"*"`),
	} {
		var metrics bytes.Buffer
		e := limitedBy(t, one)
		e.Recorder = telemetry.New(&metrics, "test", nil)
		own, err := lambdahttp.NewLayer(e).Invoke(ctx, event, func(*lambdahttp.Admitted) error { t.Error("the function ran"); return nil })
		if err != nil || !strings.Contains(string(own.Payload), `"statusCode":400`) || !strings.Contains(metrics.String(), `"Failed":1`) {
			t.Errorf("answer: got %s, %v, metrics %s, want 400 and one failure", own.Payload, err, metrics.String())
		}
	}
}

// The function gets the event with the header that the Go handler would get. Other events keep their bytes.
func TestLayer_event(t *testing.T) {
	const marking = `{"rules":[{"endpoint":"*","limits":{"global":[
		{"name":"soft","requests":1,"window":"1h","mode":"mark","per":["ip"]},{"name":"cost","requests":1000,"window":"1h","reserve":1,
			"count":"cost","per":["ip"]}]}}]}`
	for _, event := range [][]byte{undecidedREST(t), sampleEvent(t, "alb-anonymous.json"), listEvent(t),
		sampleEvent(t, "http-api-anonymous.json"), sampleEvent(t, "function-url-anonymous.json")} {
		l := lambdahttp.NewLayer(limitedBy(t, marking))
		seen := func(event []byte) (got []byte) {
			_, err := l.Invoke(ctx, event, func(a *lambdahttp.Admitted) error { got = a.Event; return nil })
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		if got := seen(event); !bytes.Equal(got, event) {
			t.Errorf("event: got %s, want no change", got)
		}
		var sent map[string]any
		if err := json.Unmarshal(event, &sent); err != nil {
			t.Fatal(err)
		}
		if single, ok := sent["headers"].(map[string]any); ok {
			single["WEIR-over"], single["weir-cost"] = "forged", "0"
		}
		if lists, ok := sent["multiValueHeaders"].(map[string]any); ok {
			lists["WEIR-over"], lists["weir-cost"] = []string{"forged"}, []string{"0"}
		}
		forged := storetest.Must(json.Marshal(sent))
		var got map[string]any
		if err := json.Unmarshal(seen(forged), &got); err != nil {
			t.Fatal(err)
		}
		for member, want := range map[string]any{"headers": "soft", "multiValueHeaders": []any{"soft"}} {
			fields, ok := got[member].(map[string]any)
			if !ok {
				continue
			}
			names := slices.DeleteFunc(slices.Collect(maps.Keys(fields)), func(name string) bool {
				return !strings.HasPrefix(strings.ToLower(name),
					"weir-")
			})
			if len(names) != 1 || names[0] != "weir-over" || !equalJSON(t, fields["weir-over"], want) {
				t.Errorf("%s: got %v with %v, want weir-over with %v", member, names, fields["weir-over"], want)
			}
		}
	}
}

func equalJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	if err := errors.Join(errX, errY); err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(x, y)
}

// The function's answer settles the request like an answer of the Go handler, and loses its cost fields.
func TestLayer_settles(t *testing.T) {
	const document = `{"rules":[{"endpoint":"*","limits":{"global":[
		{"name":"cost","requests":1000,"window":"1h","reserve":100,"count":"cost","per":["ip"]},
		{"name":"bytes","requests":100000,"window":"1h","reserve":500,"count":"bytes","per":["ip"]},
		{"name":"failures","requests":10,"window":"1h","count":"failures","per":["ip"]},
		{"name":"slots","requests":3,"window":"5m","count":"concurrent","per":["ip"]}]}}]}`
	api, rest, list := sampleEvent(t, "http-api-anonymous.json"), undecidedREST(t), listEvent(t)
	failed := errors.New("failed")
	for _, c := range []struct {
		name, payload string
		events        [][]byte
		err           error
		want          string // the use of each limit after the request
	}{
		{"text", `{"statusCode":200,"headers":{"weir-cost":"7"},"body":"\u00e4bc"}`, [][]byte{api, rest}, nil, "7 4 0 0"},
		{"a number", `{"statusCode":200,"headers":{"Weir-Cost":7},"body":"abcd"}`, [][]byte{api, rest}, nil, "7 4 0 0"},
		{"a list", `{"statusCode":503,"multiValueHeaders":{"Weir-Cost":["7"],"A":["b"]},"body":""}`, [][]byte{rest, list}, nil, "7 0 1 0"},
		{"base64", `{"statusCode":500,"headers":{"A":"b","WEIR-COST":"cost=8","C":"d"},"body":"AAECAw==","isBase64Encoded":true}`,
			[][]byte{api, rest}, nil, "8 4 1 0"},
		{"no report", `{"statusCode":200}`, [][]byte{api, rest, list}, nil, "100 0 0 0"},
		{"inferred", `"\u00e4bc"`, [][]byte{api}, nil, "100 4 0 0"},
		{"no answer to a host", `oops`, [][]byte{rest, list}, nil, "100 0 1 0"},
		{"failure", `{"statusCode":200}`, [][]byte{api, rest, list}, failed, "100 0 1 0"},
	} {
		for i, event := range c.events {
			e := limitedBy(t, document)
			var got string
			_, err := lambdahttp.NewLayer(e).Invoke(ctx, event, func(a *lambdahttp.Admitted) error {
				if c.err != nil {
					return c.err
				}
				got = string(a.Answered([]byte(c.payload)))
				return nil
			})
			if err != nil || strings.Contains(strings.ToLower(got), "weir-cost") || c.err == nil && c.payload != "oops" && !json.Valid([]byte(got)) {
				t.Errorf("%s: event %d: got %s, %v, want an answer without cost fields", c.name, i, got, err)
			}
			if used := usedBy(t, e); used != c.want {
				t.Errorf("%s: event %d: used: got %s, want %s", c.name, i, used, c.want)
			}
		}
	}
}

// The layer counts the status that the host sends, and no answer keeps a cost field.
func TestLayer_status(t *testing.T) {
	const document = `{"rules":[{"endpoint":"*","limits":{"global":[
		{"name":"cost","requests":1000,"window":"1h","reserve":100,"count":"cost","per":["ip"]},
		{"name":"failures","requests":10,"window":"1h","count":"failures","per":["ip"]}]}}]}`
	rest, alb := undecidedREST(t), sampleEvent(t, "alb-anonymous.json")
	all := [][]byte{rest, changed(t, rest, `"resource": "/api/v1/search"`, `"version": "1.0"`), sampleEvent(t, "http-api-anonymous.json"), alb}
	for _, c := range []struct {
		answer string
		events [][]byte
		want   string // what the request has used
		fields bool
	}{
		{`{"statusCode":200,"headers":{"Weir-Cost":"7"}}`, all, "7 0", true},
		{`{"statusCode":200.0,"headers":{"Weir-Cost":"7"}}`, all, "7 0", true},
		{`{"statusCode":2e2,"headers":{"Weir-Cost":"7"}}`, all, "7 0", true},
		{`{"statusCode":"200","headers":{"Weir-Cost":"7"}}`, all, "7 0", true},
		{`{"statusCode":503.0,"headers":{"Weir-Cost":"7"}}`, all, "7 1", false},
		{`{"statusCode":200.5,"headers":{"Weir-Cost":"7"}}`, all, "7 1", false},
		{`{"statusCode":1e400,"headers":{"Weir-Cost":"7"}}`, all, "7 1", false},
		{`{"statusCode":null,"headers":{"Weir-Cost":"7"}}`, all, "7 1", false},
		{`{"statusCode":200,"headers":["a"],"multiValueHeaders":{"Weir-Cost":["7"]}}`, all, "7 1", false},
		{`{"headers":{"Weir-Cost":"7"},"body":"x"}`, all[:1], "7 0", true},    // a REST API needs no status
		{`{"headers":{"Weir-Cost":"7"},"cookies":[]}`, all[:1], "7 1", false}, // a REST API has no member for cookies
		{`{"headers":{"Weir-Cost":"7"},"body":"x"}`, [][]byte{all[1], alb}, "7 1", false},
	} {
		for i, event := range c.events {
			e := limitedBy(t, document)
			if got := answered(t, e, event, c.answer); strings.Contains(strings.ToLower(got), "weir-cost") ||
				strings.Contains(got, "X-RateLimit") != c.fields || !json.Valid([]byte(got)) {
				t.Errorf("%s: event %d: got %s, want no cost field, and the fields of the decision: %t", c.answer, i, got, c.fields)
			}
			if got := usedBy(t, e); got != c.want {
				t.Errorf("%s: event %d: used: got %s, want %s", c.answer, i, got, c.want)
			}
		}
	}
}

// The function's answer stays valid JSON with the same content, whatever it is.
func FuzzLayer_answered(f *testing.F) {
	for _, payload := range []string{
		`{"statusCode":200,"headers":{"A":"b","weir-cost":"1"},"multiValueHeaders":{"Weir-Cost":["2"]},"body":"x"}`,
		`{"headers":null,"statusCode":"200"}`,
		`"text"`, `5`, `{"a":{}}`, `{"statusCode":200,"headers":{"a":{"b":[{}]}}}`, `{"\u0068eaders":{},"statusCode":2e2}`,
		"{\"statusCode\":200,\"headers\":{\"\xff\":\"\xfe\"}}",
	} {
		f.Add([]byte(payload))
	}
	events := [][]byte{sampleEvent(f, "http-api-anonymous.json"), undecidedREST(f), sampleEvent(f, "alb-anonymous.json"), listEvent(f)}
	const document = `{"rules":[{"endpoint":"*","limits":{"global":[{"name":"cost","requests":1000000000,"window":"1s","reserve":1,` +
		`"count":"cost","per":["ip"]}]}}]}`
	f.Fuzz(func(t *testing.T, payload []byte) {
		for _, event := range events {
			e := limitedBy(t, document)
			before := bytes.Clone(payload)
			got := []byte(answered(t, e, event, string(payload)))
			if !bytes.Equal(payload, before) {
				t.Fatal("payload: got a change, want none")
			}
			if json.Valid(payload) != json.Valid(got) {
				t.Fatalf("answer %q: got %q, want JSON if the answer is JSON", payload, got)
			}
			var was, is map[string]any
			if json.Unmarshal(payload, &was) != nil || json.Unmarshal(got, &is) != nil || was["statusCode"] == nil {
				continue
			}
			for _, member := range []string{"headers", "multiValueHeaders"} {
				fields, _ := is[member].(map[string]any)
				for name := range fields {
					if strings.EqualFold(name, "Weir-Cost") {
						t.Fatalf("answer %q: got %q, want no cost field", payload, got)
					}
				}
			}
			for _, answer := range []map[string]any{was, is} {
				strip(answer)
			}
			if !equalJSON(t, was, is) {
				t.Fatalf("answer %q: got %q, want no other change than the fields", payload, got)
			}
		}
	})
}

// strip removes the fields of Weir from an answer, and headers that are then empty.
func strip(answer map[string]any) {
	for _, member := range []string{"headers", "multiValueHeaders"} {
		fields, ok := answer[member].(map[string]any)
		for name := range fields {
			switch lower := strings.ToLower(name); {
			case strings.HasPrefix(lower, "ratelimit"), strings.HasPrefix(lower, "x-ratelimit"), lower == "weir-cost":
				delete(fields, name)
			}
		}
		if answer[member] == nil || ok && len(fields) == 0 {
			delete(answer, member)
		}
	}
}

// usedBy returns what the client of the sample events has used of each limit.
func usedBy(t *testing.T, e *lambdahttp.Environment) string {
	t.Helper()
	charges := e.Rules.Current().Charges(nil, http.MethodGet, rules.EncodedPath("/"),
		caller.Caller{IP: netip.MustParsePrefix("203.0.113.7/32")})
	usage, err := e.Limiter.Inspect(ctx, noon, charges)
	if err != nil {
		t.Fatal(err)
	}
	var used []string
	for _, u := range usage {
		used = append(used, strconv.FormatInt(u.Capacity-u.Remaining+u.Debt, 10))
	}
	return strings.Join(used, " ")
}

// The layer answers an event itself in each case in which the Go handler does not call the API, with the same bytes.
func TestLayer_likeHandler(t *testing.T) {
	const document = `{"usage":{"endpoint":"/api/v1/usage","limit":{"requests":2,"window":"5s"}},"rules":[{"endpoint":"*",` +
		`"limits":{"global":{"name":"few","requests":1,"window":"5s","per":["ip"]}}}]}`
	user, forged := sampleEvent(t, "http-api-user.json"), changed(t, sampleEvent(t, "http-api-user.json"), "Bearer ", "Bearer x")
	for name, c := range map[string]struct {
		edit   func(*lambdahttp.Environment)
		events [][]byte
	}{
		"refused": {nil, [][]byte{undecidedREST(t), sampleEvent(t, "http-api-anonymous.json"),
			sampleEvent(t, "function-url-anonymous.json"), sampleEvent(t, "alb-anonymous.json"), listEvent(t), user}},
		"a bad credential": {nil, [][]byte{forged}},
		"a malformed path": {nil, [][]byte{changed(t, sampleEvent(t, "alb-anonymous.json"), `"/api/v1/search"`, `"/%zz"`)}},
		"usage":            {nil, [][]byte{changed(t, user, `"rawPath": "/dev/api/v1/data"`, `"rawPath": "/dev/api/v1/usage"`)}},
		"a preflight": {func(e *lambdahttp.Environment) { e.CORSOrigins = []string{"https://app.example"} },
			[][]byte{sentBy(t, "http-api-anonymous.json", http.MethodOptions, map[string]string{"origin": "https://app.example",
				"access-control-request-method": "GET"})}},
		"a refusal to pages": {func(e *lambdahttp.Environment) { e.CORSOrigins = []string{"https://app.example"} },
			[][]byte{sentBy(t, "http-api-anonymous.json", http.MethodGet, map[string]string{"origin": "https://app.example"})}},
	} {
		for i, event := range c.events {
			called := 0
			api := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called++ })
			handled, layered := limitedBy(t, document), limitedBy(t, document)
			if c.edit != nil {
				c.edit(handled)
				c.edit(layered)
			}
			h, l := lambdahttp.NewHandler(handled, api), lambdahttp.NewLayer(layered)
			for range 3 {
				before, forwarded := called, false
				want, err := h.Invoke(ctx, event)
				if err != nil {
					t.Fatal(err)
				}
				got, err := l.Invoke(ctx, event, func(*lambdahttp.Admitted) error { forwarded = true; return nil })
				if err != nil || forwarded != (called > before) || !forwarded && !bytes.Equal(got.Payload, want) {
					t.Errorf("%s: event %d: got %+v, %v, forwarded %t, want %s, forwarded %t", name, i, got, err, forwarded, want, called > before)
				}
			}
			if called > 1 {
				t.Errorf("%s: event %d: got %d calls of the API, want answers of Weir", name, i, called)
			}
		}
	}
}

// Behind the authorizer of a REST API, the answer gets the fields of its decision, and nothing is charged.
func TestLayer_behindAuthorizer(t *testing.T) {
	store := &counting{Store: storetest.Must(memstore.New(memstore.Options{}))}
	e := environment(t, store)
	for range 5 {
		got := answered(t, e, sampleEvent(t, "rest-proxy-user.json"), `{"statusCode":200}`)
		for _, want := range []string{`"X-RateLimit-Limit":"100"`, `"X-RateLimit-Remaining":"99"`, `"RateLimit":"\"search\";r=99;t=1"`} {
			if !strings.Contains(got, want) {
				t.Errorf("answer: got %s, want %s", got, want)
			}
		}
	}
	if len(store.subjects) != 0 {
		t.Errorf("charges: got %v, want none", store.subjects)
	}
}

// The handler and the layer read the reserve and the price from the event, and the cost from the answer of the function.
func TestLayer_metering(t *testing.T) {
	const document = `{"rules":[{"endpoint":"*","limits":{"global":{"name":"cost","requests":1000,"window":"1h","count":"cost","per":["ip"],
		"reserve":{"json":"max","default":20,"most":100},"from":{"by":"json:model","prices":{"small":{"n":1},"*":{"n":3}}}}}}]}`
	const request, usage = `{"model":"small","max":60}`, `{"n":7}`
	encoded := base64.StdEncoding.EncodeToString([]byte(request))
	for _, c := range []struct {
		name, body   string
		base64       bool
		answer, want string // reserved and used; only used if the request is refused
	}{
		{"text", request, false, `{"statusCode":200,"body":"{\"n\":7}"}`, "60 7"},
		{"base64", encoded, true, `{"statusCode":200,"body":"eyJuIjo3fQ==","isBase64Encoded":true}`, "60 7"},
		{"broken base64", "!" + encoded, true, `{"statusCode":200,"body":"{\"n\":7}"}`, " 0"},
		{"events", request, false, `{"statusCode":200,"headers":{"content-type":"text/event-stream"},"body":"data: {\"n\":7}\n\n"}`, "60 7"},
		{"no body", "", false, `{"statusCode":200,"body":null}`, "60 60"},
		{"inferred", request, false, usage, "60 7"},
	} {
		for _, file := range []string{"http-api-anonymous.json", "rest-proxy-anonymous.json", "alb-anonymous.json"} {
			event := edited(t, file, func(e map[string]any) { e["body"], e["isBase64Encoded"] = c.body, c.base64 })
			if file == "rest-proxy-anonymous.json" {
				event = changed(t, event, `"weir":"allowed"`, `"org":"acme"`)
			}
			if c.name == "inferred" && file != "http-api-anonymous.json" {
				continue
			}
			e := limitedBy(t, document)
			var reserved string
			_, err := lambdahttp.NewLayer(e).Invoke(ctx, event, func(a *lambdahttp.Admitted) error {
				reserved = usedBy(t, e)
				a.Answered([]byte(c.answer))
				return nil
			})
			if got := reserved + " " + usedBy(t, e); got != c.want || err != nil {
				t.Errorf("%s, %s: got %s, %v, want %s", c.name, file, got, err, c.want)
			}
			if c.name != "text" {
				continue
			}
			e = limitedBy(t, document)
			_, err = lambdahttp.NewHandler(e, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				reserved = usedBy(t, e)
				if body, err := io.ReadAll(r.Body); string(body) != request || err != nil {
					t.Errorf("%s: the handler got the body %q, %v", file, body, err)
				}
				_, _ = io.WriteString(w, usage)
			})).Invoke(ctx, event)
			if got := reserved + " " + usedBy(t, e); got != c.want || err != nil {
				t.Errorf("handler, %s: got %s, %v, want %s", file, got, err, c.want)
			}
		}
	}
}

// The layer compares the header fields of a call with its body, and takes them from it if they are absent.
func TestLayer_tools(t *testing.T) {
	e := limitedBy(t, `{"rules":[{"endpoint":"*","method":"POST","headers":{"mcp-method":"tools/call","mcp-name":"search"},
		"limits":{"*":{"name":"search","requests":5,"window":"1h"}}}]}`)
	call := func(tool string) string { return `{"method":"tools/call","params":{"name":"` + tool + `"}}` }
	for _, c := range []struct{ name, body, want string }{
		{"search", call("render"), "call_mismatch"},               // charged
		{"search", `[` + call("search") + `]`, "unreadable_call"}, // charged
		{"render", call("render"), "unlisted_tool"},
		{"search", call("search"), ""},
		{"search", "", "unreadable_call"}, // charged
		{"", call("search"), ""},
		{"", call("search"), "rate_limit_exceeded"},
		{"search", call("search"), "rate_limit_exceeded"},
	} {
		event := edited(t, "http-api-anonymous.json", func(event map[string]any) {
			event["body"], event["isBase64Encoded"] = c.body, false
			if c.name != "" {
				event["headers"].(map[string]any)["mcp-method"], event["headers"].(map[string]any)["mcp-name"] = "tools/call", c.name
			}
		})
		passed, text := false, ""
		own, err := lambdahttp.NewLayer(e).Invoke(ctx, event, func(*lambdahttp.Admitted) error { passed = true; return nil })
		if own != nil {
			text = string(own.Payload)
		}
		if err != nil || passed != (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("field %q, body %s: got %s, passed %t, error %v; want %q", c.name, c.body, text, passed, err, c.want)
		}
	}
}

const countingBytes = `{"rules":[{"endpoint":"*","limits":{"global":{"name":"bytes","requests":1000000000,"window":"1h","reserve":1,` +
	`"count":"bytes","per":["ip"]}}}]}`

// The event is free when the function has it, and the largest answers need few copies.
func TestLayer_memory(t *testing.T) {
	const size, copies = 5_900_000, 8
	e := limitedBy(t, countingBytes)
	for name, answer := range map[string]string{
		"text":     `{"statusCode":200,"body":"` + strings.Repeat("x", size) + `"}`,
		"escapes":  `{"statusCode":200,"body":"` + strings.Repeat(`\"\u00e4`, size/8) + `"}`,
		"base64":   `{"statusCode":200,"isBase64Encoded":true,"body":"` + strings.Repeat("QUJD", size/4) + `"}`,
		"inferred": `"` + strings.Repeat("x", size) + `"`,
		"object":   `{"a":"` + strings.Repeat(`x`, size) + `"}`,
	} {
		payload := changed(t, sampleEvent(t, "http-api-anonymous.json"), `"isBase64Encoded"`, `"body":"`+strings.Repeat("x", size)+
			`","isBase64Encoded"`)
		event, answered := weak.Make(&payload[0]), []byte(answer)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := lambdahttp.NewLayer(e).Invoke(ctx, payload, func(a *lambdahttp.Admitted) error {
			a.Event = nil
			payload = nil
			runtime.GC()
			if event.Value() != nil {
				t.Errorf("%s: got the event in use, want it free", name)
			}
			a.Answered(answered)
			return nil
		})
		runtime.ReadMemStats(&after)
		if allocated := after.TotalAlloc - before.TotalAlloc; err != nil || allocated > copies*size {
			t.Errorf("%s: got %d bytes allocated, %v, want at most %d", name, allocated, err, copies*size)
		}
	}
}

// The layer counts the bytes that the client gets.
func FuzzLayer_bytes(f *testing.F) {
	for _, text := range []string{"", "abc", `a\"\\\/b`, `\u0041\u00e4\u20ac\ud83d\ude00\n`, `QUJD`, `QUI=`, `QQ==`, `QUJD\r\nQUI\u003d`,
		"ä€😀", `\\u0041`} {
		f.Add(text, false)
		f.Add(text, true)
	}
	f.Fuzz(func(t *testing.T, text string, encoded bool) {
		raw := `"` + text + `"`
		var want string
		if len(text) > 1000 || !utf8.ValidString(text) || json.Unmarshal([]byte(raw), &want) != nil ||
			strings.ContainsRune(want, utf8.RuneError) {
			t.Skip()
		}
		if encoded {
			decoded, err := base64.StdEncoding.DecodeString(want)
			if err != nil {
				t.Skip()
			}
			want = string(decoded)
		}
		answers := []string{`{"statusCode":200,"isBase64Encoded":` + strconv.FormatBool(encoded) + `,"body":` + raw + `}`}
		if !encoded {
			answers = append(answers, raw)
		}
		for _, answer := range answers {
			e := limitedBy(t, countingBytes)
			answered(t, e, sampleEvent(t, "http-api-anonymous.json"), answer)
			if got := usedBy(t, e); got != strconv.Itoa(len(want)) {
				t.Errorf("%s: got %s bytes, want %d", bytes.TrimSpace([]byte(answer)), got, len(want))
			}
		}
	})
}
