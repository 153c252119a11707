package lambdahttp_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"

	samples "github.com/weir-limits/weir/events"
)

// recorded returns the sums of the metrics in a log, and the latencies. It leaves out metrics that
// are zero.
func recorded(t *testing.T, log []byte) (counts map[string]int, latencies []float64) {
	t.Helper()
	counts = map[string]int{}
	for line := range bytes.Lines(log) {
		members := map[string]json.RawMessage{}
		if err := json.Unmarshal(line, &members); err != nil {
			t.Fatal(err)
		}
		if members["_aws"] == nil {
			continue
		}
		for name, member := range members {
			var n int
			var some []float64
			switch {
			case json.Unmarshal(member, &n) == nil:
				counts[name] += n
			case name == telemetry.Latency && json.Unmarshal(member, &some) == nil:
				latencies = append(latencies, some...)
			}
		}
	}
	maps.DeleteFunc(counts, func(_ string, n int) bool { return n == 0 })
	return counts, latencies
}

// unverifiable returns an identifier whose issuer is unreachable.
func unverifiable(t testing.TB) *caller.Identifier {
	t.Helper()
	down := storetest.Must(caller.NewRemoteKeys("http://127.0.0.1:1/"))
	tokens := storetest.Must(caller.NewVerifier(caller.TokenOptions{Keys: down, Issuer: samples.Issuer, Audience: []string{samples.Audience},
		Algorithms: []string{"ES256"}}))
	return caller.New(caller.Options{Tokens: tokens})
}

// The authorizer and the middleware count the outcomes of requests in the same way.
func TestRecorder(t *testing.T) {
	shared := func(t testing.TB) *lambdahttp.Environment {
		return environment(t, &counting{Store: storetest.Must(memstore.New(memstore.Options{}))})
	}
	for _, c := range []struct {
		name        string
		environment func(testing.TB) *lambdahttp.Environment
		requests    int
		credential  string // prefix that makes the token invalid
		want        map[string]int
	}{
		{"allowed", shared, 1, "", map[string]int{"Allowed": 1, "StoreCalls": 2}},
		{"refused", memory, 4, "", map[string]int{"Allowed": 3, "Refused": 1}},
		{"remembered", shared, 5, "", map[string]int{"Allowed": 3, "Refused": 2, "FromCache": 2, "StoreCalls": 6}},
		{"degraded", func(t testing.TB) *lambdahttp.Environment { return environment(t, unreachable{}) }, 2, "", map[string]int{"Allowed": 2,
			"Degraded": 2, "StoreCalls": 4}},
		{"denied", func(t testing.TB) *lambdahttp.Environment {
			e := environment(t, unreachable{})
			e.Rules = storetest.Must(fixed(rules.Parse([]byte(`{"rules":[{"endpoint":"*","on_error":"deny","limits":{"*":{"name":"strict",`+
				`"requests":1,"window":"1m"}}}]}`), rules.Options{Version: 1})))
			return e
		}, 2, "", map[string]int{"Failed": 2, "Degraded": 2, "StoreCalls": 2}},
		{"unauthorized", shared, 2, "x", map[string]int{"Unauthorized": 2, "StoreCalls": 2}},
		{"unauthorized while the store fails", func(t testing.TB) *lambdahttp.Environment { return environment(t, unreachable{}) }, 2, "x",
			map[string]int{"Unauthorized": 2, "Degraded": 2, "StoreCalls": 2}},
		{"unauthorized too often", shared, 9, "x", map[string]int{"Unauthorized": 8, "Refused": 1, "FromCache": 1, "StoreCalls": 8}},
		{"failed", func(t testing.TB) *lambdahttp.Environment {
			e := shared(t)
			e.Identifier = unverifiable(t)
			return e
		}, 1, "", map[string]int{"Failed": 1, "StoreCalls": 1}},
		{"shadowed", func(t testing.TB) *lambdahttp.Environment {
			e := memory(t)
			e.Rules = storetest.Must(fixed(rules.Parse([]byte(`{"rules":[{"endpoint":"*","mode":"shadow","limits":{"*":{"name":"tried",`+
				`"requests":1,"window":"1m"}}}]}`), rules.Options{Version: 1})))
			return e
		}, 3, "", map[string]int{"Allowed": 3, "Shadowed": 2}},
	} {
		for _, by := range []string{"authorizer", "middleware"} {
			t.Run(c.name+" by "+by, func(t *testing.T) {
				var log bytes.Buffer
				e := c.environment(t)
				e.Recorder = telemetry.New(&log, "test", nil)
				event := changed(t, sampleEvent(t, "rest-authorizer-user.json"), "Bearer ", "Bearer "+c.credential)
				function := lambdahttp.NewAuthorizer(e)
				if by == "middleware" { // the same request without an authorizer
					event = changed(t, event, `"type": "REQUEST"`, `"type": ""`)
					function = lambdahttp.NewHandler(e, sample.New(e))
				}
				for range c.requests {
					_, _ = function.Invoke(ctx, event)
				}
				e.Recorder.RulesRefused(noon.Add(10 * time.Second)) // writes the pending metrics
				got, latencies := recorded(t, log.Bytes())
				delete(got, telemetry.RulesRefused)
				if !maps.Equal(got, c.want) || len(latencies) != got["Allowed"]+got["Refused"] {
					t.Errorf("got metrics %v and %d latencies; want metrics %v, and a latency for each allowed or refused request:\n%s", got,
						len(latencies), c.want, &log)
				}
			})
		}
	}
}

// Allowed and refused requests are counted for each rule.
func TestRecorder_byRule(t *testing.T) {
	var log bytes.Buffer
	e := memory(t)
	e.Recorder = telemetry.New(&log, "test", nil)
	e.Recorder.Rules(noon, 1, time.Time{}, e.Rules.Current().Labels(), nil)
	for range 5 {
		if _, err := authorize(t, e, sampleEvent(t, "rest-authorizer-user.json")); err != nil {
			t.Fatal(err)
		}
	}
	for second := range 3 {
		e.Recorder.RulesRefused(noon.Add(time.Duration(second+1) * time.Second)) // each call writes the metrics of one rule
	}
	sums := map[string]int{}
	for line := range bytes.Lines(log.Bytes()) {
		var l struct {
			Rule                     string
			RuleAllowed, RuleRefused int
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		sums[l.Rule+" allowed"] += l.RuleAllowed
		sums[l.Rule+" refused"] += l.RuleRefused
	}
	maps.DeleteFunc(sums, func(_ string, n int) bool { return n == 0 })
	if want := map[string]int{"GET /api/v1/search allowed": 3, "GET /api/v1/search refused": 2, "address allowed": 3}; !maps.Equal(sums,
		want) {
		t.Errorf("metrics by rule: got %v, want %v:\n%s", sums, want, &log)
	}
}

// An event that the handler cannot parse counts as failed.
func TestHandler_recordsMalformed(t *testing.T) {
	for _, event := range []string{"", "[]", "{}", `{"httpMethod":1}`} {
		e := memory(t)
		var log bytes.Buffer
		e.Recorder = telemetry.New(&log, "test", nil)
		if _, err := lambdahttp.NewHandler(e, sample.New(e)).Invoke(t.Context(), []byte(event)); err == nil {
			t.Errorf("event %q: got no error, want one", event)
		}
		if counts, _ := recorded(t, log.Bytes()); !maps.Equal(counts, map[string]int{"Failed": 1}) {
			t.Errorf("event %q: got metrics %v, want one failure", event, counts)
		}
	}
}

// The authorizer counts a request that it has decided, and the handler does not count it again.
func TestRecorder_behindAuthorizer(t *testing.T) {
	var log bytes.Buffer
	e := memory(t)
	e.Recorder = telemetry.New(&log, "test", nil)
	if a := handle(t, e, sample.New(e), sampleEvent(t, "rest-proxy-user.json")); a.StatusCode != http.StatusOK || log.Len() != 0 {
		t.Errorf("got status %d and log %s, want 200 and an empty log", a.StatusCode, &log)
	}
}
