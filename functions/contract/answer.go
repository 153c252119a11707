package contract

// These are the header fields of an answer that carry a decision.
const (
	FieldRetryAfter = "Retry-After"
	FieldLimit      = "X-RateLimit-Limit"
	FieldRemaining  = "X-RateLimit-Remaining"
	FieldReset      = "X-RateLimit-Reset"
	FieldPolicy     = "RateLimit-Policy"
	FieldRateLimit  = "RateLimit"
	FieldDegraded   = "Weir-Degraded"
)

// Field is a header field and the key of its value in the authorizer's context. A gateway response
// refers to the value as context.authorizer.<Key>.
type Field struct{ Name, Key string }

// Fields returns the header fields of a decision, in the order of the answer.
func Fields() []Field {
	return []Field{
		{FieldRetryAfter, "retryAfter"},
		{FieldLimit, "rateLimitLimit"},
		{FieldRemaining, "rateLimitRemaining"},
		{FieldReset, "rateLimitReset"},
		{FieldPolicy, "rateLimitPolicy"},
		{FieldRateLimit, "rateLimit"},
		{FieldDegraded, "degraded"},
	}
}

// FieldNames returns the names of [Fields]. Access-Control-Expose-Headers must list them, so that
// pages of other origins can read the fields.
func FieldNames() []string {
	names := make([]string, 0, len(Fields()))
	for _, f := range Fields() {
		names = append(names, f.Name)
	}
	return names
}

// These are keys of the authorizer's context. The body of a refusal contains their values. API
// Gateway does not escape the values, so no value contains quotes. A refusal has all of these keys.
const (
	KeyType    = "problemType"
	KeyError   = "problemError"
	KeyMessage = "message"
	KeyLimit   = "limit" // the number of requests, as decimal digits
	KeyWindow  = "window"
	KeyPolicy  = "policy"
)

// BodyKeys returns the keys that a body template may contain.
func BodyKeys() []string {
	return []string{KeyType, KeyError, KeyMessage, KeyLimit, KeyWindow, KeyPolicy}
}
