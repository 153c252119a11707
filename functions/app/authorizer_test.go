package app_test

import (
	"encoding/json"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/weir-limits/weir/limiter/rules"
)

// Whichever of two values of a header comes first, neither is believed.
func TestAuthorizer_doubled(t *testing.T) {
	for file, header := range map[string]string{"rest-authorizer-user.json": "Authorization", "rest-authorizer-apikey.json": "x-api-key"} {
		event := sample(t, file)
		var sent struct {
			Headers map[string][]string `json:"multiValueHeaders"`
		}
		if err := json.Unmarshal(event, &sent); err != nil {
			t.Fatal(err)
		}
		good := sent.Headers[header][0]
		for _, values := range [][]string{{good, "Bearer other"}, {"Bearer other", good}, {good, good}} {
			both, err := json.Marshal(map[string]any{header: values})
			if err != nil {
				t.Fatal(err)
			}
			doubled := changed(t, event, `"multiValueHeaders": {`, `"multiValueHeaders": `+string(both)+`, "ignored": {`)
			if _, err := authorize(t, memory(t), doubled); err == nil || err.Error() != "Unauthorized" {
				t.Errorf("%s: %s: %v", file, both, err)
			}
		}
	}
}

// The context names the tier that decided, and not what the caller says it is.
func TestAuthorizer_tier(t *testing.T) {
	e := memory(t)
	event := sample(t, "rest-authorizer-user.json") // whose tier is paid
	if p, err := authorize(t, e, event); err != nil || p.Context["tier"] != "paid" {
		t.Errorf("a tier of the rules: %+v, %v", p.Context, err)
	}
	var err error
	e.Rules, err = rules.Parse([]byte(`{"rules":[{"endpoint":"*","limits":{"free":{"requests":5,"window":"1m"}}}]}`), rules.Options{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := authorize(t, e, event); err != nil || p.Context["rateLimitLimit"] != "5" || p.Context["tier"] != "free" {
		t.Errorf("a tier that the rules do not know: %+v, %v", p.Context, err)
	}
}

// The problem document of a refusal is that of the middleware, in one value.
func TestAuthorizer_problem(t *testing.T) {
	e := memory(t)
	var p events.APIGatewayCustomAuthorizerResponse
	for range 3 {
		var err error
		if p, err = authorize(t, e, sample(t, "rest-authorizer-anonymous.json")); err != nil {
			t.Fatal(err)
		}
	}
	const want = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","status":429,"error":"rate_limit_exceeded",` +
		`"message":"Too many requests. Retry after 1 second.","limit":60,"window":"60s","violated-policies":["search"]}`
	if got := "{" + p.Context["problem"].(string) + "}"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}
