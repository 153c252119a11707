package lambdahttp

import (
	"maps"
	"strconv"
	"strings"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/httplimit"
)

// A REST API's authorizer hands its decision on in the context of its policy: strings
// by key. Gateway responses map the keys to the headers of a 429 (as
// context.authorizer.<key>), and the handler maps them to those of its own answer.
//
// A body template escapes nothing. So a refusal has values for it that cannot break a
// JSON string, and has all of them each time: problemType, problemError, message, limit
// (digits, 0 if no limit refused), window and policy (empty then). What has quotes is for
// headers alone. A refusal always has degraded too, because what API Gateway makes of a
// header whose value is missing is not documented.
const (
	keyWeir    = "weir" // what Weir has decided: allowed or refused
	keyType    = "problemType"
	keyError   = "problemError"
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

// notDegraded is the value of Weir-Degraded where a gateway response has to have one and the store
// has not failed.
const notDegraded = "none"

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

// FieldKeys returns the keys of an authorizer's context whose values are header fields, by
// the field's name: what a gateway response takes as context.authorizer.<key>.
func FieldKeys() map[string]string { return maps.Clone(fieldKeys) }

// BodyKeys returns the keys whose values a body template can have: they have no quotes.
func BodyKeys() []string {
	return []string{keyType, keyError, keyMessage, keyLimit, keyWindow, keyPolicy}
}

// DecisionContext returns the context of an authorizer's policy: what the gateway
// responses of infra/ratelimit and [NewHandler] read. subject is who was decided on, and
// tier the tier by which.
func DecisionContext(a httplimit.Answer, subject limiter.Subject, tier string) map[string]any {
	context := map[string]any{keyWeir: allowed, keySubject: subject.String(), keyTier: tier}
	for _, f := range a.Fields() {
		context[fieldKeys[f[0]]] = f[1]
	}
	if p := a.Problem; p != nil {
		context[keyWeir] = refused
		context[keyType] = p.Type
		context[keyError] = p.Error
		context[keyMessage] = p.Message
		context[keyLimit] = strconv.FormatInt(p.Limit, 10) // a number may come out as 1.0E9
		context[keyWindow] = p.Window
		context[keyPolicy] = strings.Join(p.Violated, ",")
		if a.Degraded == "" {
			context[fieldKeys[httplimit.DegradedField]] = notDegraded
		}
	}
	return context
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
