package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/document"
	"github.com/weir-limits/weir/local/operator"
)

// The text of an explanation has a rejected credential, an exemption, and a reserve in the body. No limit charges a request
// without a route.
func TestPrinter_explanation(t *testing.T) {
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	tokens := operator.LimitUsage{Name: "tokens", Path: "p", Subject: "user:a", Algorithm: "sliding_window", Requests: 9000, WindowSeconds: 60,
		Cost: 32000, Count: "cost", Mode: "enforce", OnError: "allow",
		Reserve: &operator.Reserve{JSON: "max_tokens|max_output_tokens", Default: 4000, Most: 32000}}
	priced := tokens
	priced.Cost = 96000
	for want, e := range map[string]operator.Explanation{
		"now  401: the credential is rejected (invalid credential: suspended)\n": {
			Decision: operator.Verdict{Status: http.StatusUnauthorized}, Caller: operator.Identity{Rejected: "invalid credential: suspended"}},
		"would charge 2 limits\n": {Rules: []operator.Matched{{Path: "rules[0]", Endpoint: "*", Charges: 2}},
			Decision: operator.Verdict{Status: http.StatusForbidden, Unrouted: true}},
		"  none: exempt[0] (health) exempts the endpoint /health\n": {Exempt: &rules.Exemption{Exemption: document.Exemption{
			Identity: document.Identity{Kind: "endpoint", Value: "/health"}, Path: "exempt[0]", Name: "health"}},
			Decision: operator.Verdict{Allowed: true}},
		"9000 in 1m, counts cost, reserves max_tokens|max_output_tokens of the request's body: 4000 without it, at most 32000  ": {
			Limits: []operator.LimitUsage{tokens}},
		"at most 32000, each times its price, at most 96000  ": {Limits: []operator.LimitUsage{priced}},
	} {
		var p printer
		e.At = at
		p.explanation(e)
		if !strings.Contains(p.String(), want) {
			t.Errorf("got %s\nwant %q", p.String(), want)
		}
	}
}
