package lambdahttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A header with two values is an invalid credential, in either order of the values.
func TestAuthorizer_repeatedHeader(t *testing.T) {
	for file, header := range map[string]string{"rest-authorizer-user.json": "Authorization", "rest-authorizer-apikey.json": "x-api-key"} {
		event := sampleEvent(t, file)
		var sent struct {
			Headers map[string][]string `json:"multiValueHeaders"`
		}
		if err := json.Unmarshal(event, &sent); err != nil {
			t.Fatal(err)
		}
		good := sent.Headers[header][0]
		for _, values := range [][]string{{good, "Bearer other"}, {"Bearer other", good}, {good, good}} {
			both := storetest.Must(json.Marshal(map[string]any{header: values}))
			doubled := changed(t, event, `"multiValueHeaders": {`, `"multiValueHeaders": `+string(both)+`, "ignored": {`)
			if _, err := authorize(t, memory(t), doubled); err == nil || err.Error() != "Unauthorized" {
				t.Errorf("%s: %s: got %v, want Unauthorized", file, both, err)
			}
		}
	}
}

// The context contains the tier whose limits applied, not the tier that the caller claims.
func TestAuthorizer_tier(t *testing.T) {
	e := memory(t)
	event := sampleEvent(t, "rest-authorizer-user.json") // the tier of this user is paid
	if p, err := authorize(t, e, event); err != nil || p.Context["tier"] != "paid" {
		t.Errorf("tier that the rules define: got %+v, %v; want paid", p.Context, err)
	}
	e.Rules = storetest.Must(fixed(rules.Parse([]byte(`{"rules":[{"endpoint":"*","limits":{"free":{"requests":5,"window":"1m"}}}]}`),
		rules.Options{Version: 1})))
	if p, err := authorize(t, e, event); err != nil || p.Context["rateLimitLimit"] != "5" || p.Context["tier"] != "free" {
		t.Errorf("tier that the rules do not define: got %+v, %v; want free", p.Context, err)
	}
}

// slowRules is a source that takes some time.
type slowRules struct{ version int64 }

// Document implements live.Source.
func (s *slowRules) Document(context.Context) (live.Document, error) {
	time.Sleep(50 * time.Millisecond)
	s.version++
	return live.Document{Content: []byte(`{"rules":[{"endpoint":"*","limits":{"*":{"requests":5,"window":"1m"}}}]}`), Version: s.version}, nil
}

// Before a function answers, it waits for its running reload, because Lambda freezes the function after
// the answer.
func TestAuthorizer_waitsForReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory(t)
		now := time.Now()
		e.Clock = func() time.Time { return now }
		e.Rules = live.New(nil, &slowRules{}, live.Options{})
		if err := e.Rules.Refresh(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		now = now.Add(55 * time.Second)
		if _, err := authorize(t, e, sampleEvent(t, "rest-authorizer-anonymous.json")); err != nil || e.Rules.Current().Version() != 2 {
			t.Errorf("version of the rules: got %d, want 2 (error %v)", e.Rules.Current().Version(), err)
		}
	})
}

// refusal is the body template of an API's ACCESS_DENIED gateway response.
const refusal = `{"type":"$context.authorizer.problemType","title":"Too Many Requests","status":429,` +
	`"error":"$context.authorizer.problemError",` +
	`"message":"$context.authorizer.message","retry_after":$context.authorizer.wait,"limit":$context.authorizer.limit,` +
	`"window":"$context.authorizer.window","violated-policies":["$context.authorizer.policy"]}`

// filled replaces the variables of the template with the values of the context. Like API Gateway, it
// escapes nothing.
func filled(template string, context map[string]any) string {
	for key, value := range context {
		template = strings.ReplaceAll(template, "$context.authorizer."+key, fmt.Sprint(value))
	}
	return template
}

// For every rule, a refusal contains all values of the JSON body, and no value makes the body invalid
// JSON. The same is true if newer rules of another environment decide.
func TestAuthorizer_problem_allRules(t *testing.T) {
	event := sampleEvent(t, "rest-authorizer-anonymous.json")
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.StringMatching(`[a-z0-9_-]{1,32}`).Draw(rt, "name")
		algorithm := rapid.SampledFrom([]string{"sliding_window", "fixed_window", "token_bucket", "leaky_bucket", "sliding_log"}).Draw(rt,
			"algorithm")
		window := rapid.IntRange(1, 8_640_000).Draw(rt, "window")
		drawn := func(version, requests int) *live.Rules {
			limit := fmt.Sprintf(`{"name":%q,"requests":%d,"window":"%ds","algorithm":%q}`, name, requests, window, algorithm)
			r, err := rules.Parse([]byte(`{"rules":[{"endpoint":"*","cost":5,"limits":{"*":`+limit+`}}]}`), rules.Options{Version: int64(version)})
			if err != nil {
				rt.Skip(err)
			}
			return live.Fixed(r)
		}
		e := memory(t)
		e.Rules = drawn(2, rapid.IntRange(5, 9).Draw(rt, "requests"))
		first, err := authorize(t, e, event)
		if err != nil || effect(first) != "Allow" {
			rt.Fatalf("first request: got %+v, %v; want Allow", first, err)
		}
		if rapid.Bool().Draw(rt, "superseded") {
			e.Rules = drawn(1, rapid.IntRange(10, 1_000_000).Draw(rt, "older"))
		}
		p, err := authorize(t, e, event)
		if err != nil || effect(p) != "Deny" {
			rt.Fatalf("second request: got %+v, %v; want Deny", p, err)
		}
		for _, key := range []string{"message", "limit", "window", "policy"} {
			text, ok := p.Context[key].(string)
			if !ok || strings.ContainsFunc(text, func(r rune) bool { return r == '"' || r == '\\' || r < ' ' }) {
				rt.Errorf("context %s: got %q, want text that fits a JSON string", key, p.Context[key])
			}
		}
		if got, ok := p.Context["degraded"]; ok { // a gateway response would map the value to a header
			rt.Errorf("degraded: got %v, want no value", got)
		}
		var body httplimit.Problem
		if err := json.Unmarshal([]byte(filled(refusal, p.Context)), &body); err != nil || body.Message != p.Context["message"] ||
			strconv.FormatInt(body.Wait, 10) != p.Context["retryAfter"] ||
			len(body.Violated) != 1 || body.Violated[0] != name {
			rt.Errorf("body: got %s, error %v; want the message of the context and the policy %s", filled(refusal, p.Context), err, name)
		}
	})
}

// An invocation allocates little, because allocations cost time on a small function. A deep event is an error.
func TestAuthorizer_allocations(t *testing.T) {
	for _, file := range []string{"rest-authorizer-anonymous.json", "rest-authorizer-apikey.json"} {
		authorizer, event := lambdahttp.NewAuthorizer(memory(t)), sampleEvent(t, file)
		allocs := testing.AllocsPerRun(100, func() {
			if _, err := authorizer.Invoke(ctx, event); err != nil {
				t.Fatal(err)
			}
		})
		if allocs > 250 {
			t.Errorf("%s: got %v allocations, want at most 250", file, allocs)
		}
	}
	for _, deep := range []string{strings.Repeat("[", 3_000_000), strings.Repeat(`{"a":`, 1_000_000)} {
		allocs := testing.AllocsPerRun(1, func() {
			if _, err := authorize(t, memory(t), []byte(`{"x":`+deep)); err == nil {
				t.Errorf("%.20s...: got no error, want one", deep)
			}
		})
		if allocs > 10_000 {
			t.Errorf("%.20s...: got %v allocations, want at most 10,000", deep, allocs)
		}
	}
}
