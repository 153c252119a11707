package lambdahttp_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// hostile are JSON values that decoders reject, or read in different ways.
var hostile = []string{
	`1e400`, `-1e999999`, `123456789012345678901234567890.5`, `"\ud800"`, `"\u0000"`, "\"\xff\"", `null`, `true`, `0`, `""`, `[]`, `{}`,
	`[1e400,{"a":[null]}]`,
	`{"a":1,"a":{"b":1e400}}`, `{"":{"weir":"allowed"}}`, strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
	`{"sourceIp":1e400,"method":[]}`,
}

// hostEvents are the events of each host, each of a different form.
func hostEvents(t testing.TB) map[string][]byte {
	t.Helper()
	return map[string][]byte{
		"REST API": undecidedREST(t), "HTTP API 1.0": changed(t, undecidedREST(t), `"resource": "/api/v1/search"`, `"version": "1.0"`),
		"HTTP API":     sampleEvent(t, "http-api-user.json"),
		"function URL": sampleEvent(t, "function-url-anonymous.json"), "load balancer": sampleEvent(t, "alb-anonymous.json"),
		"load balancer with lists": listEvent(t),
	}
}

// positions returns the members of an event, and one unknown member of each of its objects.
func positions(t testing.TB, event []byte) (all []string) {
	t.Helper()
	var walk func(prefix string, value []byte)
	walk = func(prefix string, value []byte) {
		var object map[string]json.RawMessage
		if json.Unmarshal(value, &object) != nil || object == nil {
			return
		}
		all = append(all, prefix+"unknown")
		for name, member := range object {
			all = append(all, prefix+name)
			walk(prefix+name+"/", member)
		}
	}
	walk("", event)
	slices.Sort(all)
	return all
}

func replaced(t testing.TB, event []byte, path, value string) []byte {
	t.Helper()
	name, rest, inner := strings.Cut(path, "/")
	var object map[string]json.RawMessage
	if err := json.Unmarshal(event, &object); err != nil {
		t.Fatal(err)
	}
	if inner {
		value = string(replaced(t, object[name], rest, value))
	}
	delete(object, name)
	b := []byte(`{` + string(storetest.Must(json.Marshal(name))) + `:` + value) // json.Marshal would reject some values
	for name, member := range object {
		b = fmt.Appendf(b, ",%s:%s", storetest.Must(json.Marshal(name)), member)
	}
	return append(b, '}')
}

// read returns whether Weir decides by a member, so that another value can select other limits, or make the
// event one that is no HTTP request.
func read(path string) bool {
	for _, part := range []string{
		"version", "httpMethod", "path", "rawPath", "headers", "multiValueHeaders", "cookies", "isBase64Encoded", "methodArn", "routeArn",
		"requestContext/apiId", "requestContext/domainName", "requestContext/stage", "requestContext/elb", "requestContext/http/method",
		"requestContext/http/sourceIp", "requestContext/identity/sourceIp",
	} {
		if path == part || strings.HasPrefix(part, path+"/") || strings.HasPrefix(path, part+"/") {
			return true
		}
	}
	return false
}

// decides are the members without which an event is no HTTP request.
var decides = []string{"version", "httpMethod", "path", "rawPath", "requestContext", "requestContext/http", "requestContext/http/method"}

// No value of a member lets an HTTP request pass without a decision. A member that Weir does not read changes nothing.
func TestLayer_hostileMembers(t *testing.T) {
	for host, event := range hostEvents(t) {
		normal, undecided, tried := decidedBy(t, event), 0, 0
		for _, path := range positions(t, event) {
			if slices.Contains(decides, path) {
				continue
			}
			for _, value := range hostile {
				tried++
				got, err := decision(t, replaced(t, event, path, value))
				if err != nil {
					undecided++
					if undecided <= 3 {
						t.Errorf("%s: %s is %.40s: got %v, want a decision", host, path, value, err)
					}
				} else if !read(path) && !slices.Equal(got, normal) {
					t.Errorf("%s: %s is %.40s: got charges on %q, want %q", host, path, value, got, normal)
				}
			}
		}
		if undecided > 0 {
			t.Errorf("%s: %d of %d events passed without a decision, want none", host, undecided, tried)
		}
	}
}

// An event of an API or a load balancer without a readable method or path is not treated as another kind of event.
func TestLayer_unreadable(t *testing.T) {
	for host, event := range hostEvents(t) {
		for _, path := range decides {
			if strings.Contains(path, "/") && !slices.Contains(positions(t, event), path) {
				continue
			}
			for _, value := range hostile {
				var metrics bytes.Buffer
				e := limitedBy(t, one)
				e.Recorder = telemetry.New(&metrics, "test", nil)
				_, err := lambdahttp.NewLayer(e).Invoke(ctx, replaced(t, event, path, value), func(*lambdahttp.Admitted) error { return nil })
				if errors.Is(err, lambdahttp.ErrForeign) || err != nil && !strings.Contains(metrics.String(), `"Failed":1`) {
					t.Errorf("%s: %s is %.40s: got %v, metrics %s, want a decision, or an error that counts", host, path, value, err, metrics.String())
				}
			}
		}
	}
}

func decidedBy(t testing.TB, event []byte) []string {
	t.Helper()
	return storetest.Must(decision(t, event))
}

func decision(t testing.TB, event []byte) ([]string, error) {
	t.Helper()
	store := &counting{Store: storetest.Must(memstore.New(memstore.Options{}))}
	e := environment(t, store)
	ran := false
	own, err := lambdahttp.NewLayer(e).Invoke(ctx, event, func(*lambdahttp.Admitted) error { ran = true; return nil })
	if err == nil && !ran && own == nil {
		t.Fatal("got neither an answer nor a call of the function")
	}
	slices.Sort(store.subjects) // some requests charge two subjects at the same time
	return store.subjects, err
}

// An event that cannot be decoded has an error, which the log and the metric report. It is not treated as another kind of event.
func TestLayer_undecodable(t *testing.T) {
	deep := strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001)
	for name, event := range map[string]string{
		"deep": string(replaced(t, sampleEvent(t, "alb-anonymous.json"), "unknown", deep)), "cut": `{"httpMethod":"GET","path":"/"`,
		"followed": `{"httpMethod":"GET","path":"/"}{}`,
	} {
		if _, err := decision(t, []byte(event)); err == nil || errors.Is(err, lambdahttp.ErrForeign) {
			t.Errorf("%s: got %v, want an error of an event without a decision", name, err)
		}
	}
}

func reporting(header map[string][]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { maps.Copy(w.Header(), header) })
}

// The handler and the layer read a report in the same way, however the API repeats its field.
func TestLayer_reports(t *testing.T) {
	const document = `{"rules":[{"endpoint":"*","limits":{"global":{"name":"cost","requests":1000,"window":"1h","reserve":100,` +
		`"count":"cost","per":["ip"]}}}]}`
	for name, c := range map[string]struct {
		answer string
		sent   map[string][]string
		want   string
	}{
		"one": {`"headers":{"Weir-Cost":"7"}`, map[string][]string{"Weir-Cost": {"7"}}, "7"},
		"two spellings": {`"headers":{"Weir-Cost":"7","weir-cost":"8"}`, map[string][]string{"Weir-Cost": {"7"}, "weir-cost": {"8"}},
			"100"},
		"two spellings, the same": {`"headers":{"Weir-Cost":"7","weir-cost":"7"}`, map[string][]string{"Weir-Cost": {"7"}, "weir-cost": {"7"}},
			"100"},
		"a list of two": {`"multiValueHeaders":{"Weir-Cost":["7","8"]}`, map[string][]string{"Weir-Cost": {"7", "8"}}, "100"},
		"two lists": {`"multiValueHeaders":{"Weir-Cost":["7"],"WEIR-COST":["8"]}`, map[string][]string{"Weir-Cost": {"7"},
			"WEIR-COST": {"8"}}, "100"},
		"a list and text": {`"headers":{"Weir-Cost":"7"},"multiValueHeaders":{"weir-cost":["8"]}`, map[string][]string{"Weir-Cost": {"7"},
			"weir-cost": {"8"}}, "100"},
		// API Gateway sends it once
		"the same in both": {`"headers":{"Weir-Cost":"7"},"multiValueHeaders":{"Weir-Cost":["7"]}`, map[string][]string{"Weir-Cost": {"7"}}, "7"},
		"no number":        {`"headers":{"Weir-Cost":{"a":7}}`, map[string][]string{"Weir-Cost": {`{"a":7}`}}, "100"},
		"out of range":     {`"headers":{"Weir-Cost":1e400}`, map[string][]string{"Weir-Cost": {`1e400`}}, "100"},
	} {
		for range 20 { // maps have no order
			layered, handled := limitedBy(t, document), limitedBy(t, document)
			got := answered(t, layered, undecidedREST(t), `{"statusCode":200,`+c.answer+`}`)
			if strings.Contains(strings.ToLower(got), "weir-cost") {
				t.Fatalf("%s: answer: got %s, want no cost field", name, got)
			}
			handle(t, handled, reporting(c.sent), undecidedREST(t))
			if l, h := usedBy(t, layered), usedBy(t, handled); l != c.want || h != c.want {
				t.Fatalf("%s: used: got %s by the layer and %s by the handler, want %s", name, l, h, c.want)
			}
		}
	}
}
