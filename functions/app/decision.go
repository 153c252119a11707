package app

import (
	"encoding/json"
	"strings"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/httplimit"
)

// A REST API's authorizer hands its decision on in the context of its policy: strings
// by key. Gateway responses map the keys to the headers of a 429 (as
// context.authorizer.<key>), and the handler maps them to those of its own answer.
//
// A body template escapes nothing and has no statements. So the members of the problem
// document come in one value, which is empty where somebody else has denied the request,
// such as the API's resource policy: what is left is JSON still.
const (
	keyWeir    = "weir"    // what Weir has decided: allowed or refused
	keyProblem = "problem" // the members of the problem document, with their quotes
	keyMessage = "message"
	keyLimit   = "limit"
	keyWindow  = "window"
	keyPolicy  = "policy"
	keySubject = "subject"
	keyTier    = "tier"
)

// The values of keyWeir.
const (
	allowed = "allowed"
	refused = "refused"
)

// fieldKeys are the keys of header fields.
var fieldKeys = map[string]string{
	httplimit.RetryAfterField: "retryAfter",
	httplimit.LimitField:      "rateLimitLimit",
	httplimit.RemainingField:  "rateLimitRemaining",
	httplimit.ResetField:      "rateLimitReset",
	httplimit.PolicyField:     "rateLimitPolicy",
	httplimit.RateLimitField:  "rateLimit",
	httplimit.DegradedField:   "degraded",
}

// decisionContext returns the context of a policy; tier is the one that decided.
func decisionContext(a httplimit.Answer, subject limiter.Subject, tier string) map[string]any {
	context := map[string]any{keyWeir: allowed, keySubject: subject.String(), keyTier: tier}
	for _, f := range a.Fields() {
		context[fieldKeys[f[0]]] = f[1]
	}
	if p := a.Problem; p != nil {
		context[keyWeir] = refused
		context[keyProblem] = members(p)
		context[keyMessage] = p.Message
		context[keyLimit] = p.Limit
		context[keyWindow] = p.Window
		context[keyPolicy] = strings.Join(p.Violated, ",")
	}
	return context
}

// members returns p in JSON without its braces.
func members(p *httplimit.Problem) string {
	document, _ := json.Marshal(p) // strings and numbers always marshal
	return string(document[1 : len(document)-1])
}

// decisionFields returns the header fields in a context; ok reports whether it says that
// Weir has allowed the request. There may be no field: limits of all callers together do
// not speak when they allow, and yet they have been charged.
func decisionFields(context map[string]any) (fields map[string]string, ok bool) {
	if context[keyWeir] != allowed {
		return nil, false
	}
	fields = map[string]string{}
	for name, key := range fieldKeys {
		if value, ok := context[key].(string); ok {
			fields[name] = value
		}
	}
	return fields, true
}
