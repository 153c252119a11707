package contract

// Header fields of an answer that carry a decision.
const (
	FieldRetryAfter = "Retry-After"
	FieldLimit      = "X-RateLimit-Limit"
	FieldRemaining  = "X-RateLimit-Remaining"
	FieldReset      = "X-RateLimit-Reset"
	FieldPolicy     = "RateLimit-Policy"
	FieldRateLimit  = "RateLimit"
	FieldDegraded   = "Weir-Degraded"
)

// Field is a header field and the key of the authorizer's context that carries its value.
// A gateway response refers to the value as context.authorizer.<Key>.
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

// FieldNames returns the names of [Fields]: what a browser exposes to a page of another
// origin.
func FieldNames() []string {
	names := make([]string, 0, len(Fields()))
	for _, f := range Fields() {
		names = append(names, f.Name)
	}
	return names
}

// Keys of the authorizer's context whose values the body of a refusal contains. API
// Gateway does not escape them, so no value has quotes. A refusal has all of them.
const (
	KeyType    = "problemType"
	KeyError   = "problemError"
	KeyMessage = "message"
	KeyLimit   = "limit" // digits
	KeyWindow  = "window"
	KeyPolicy  = "policy"
)

// BodyKeys returns the keys that a body template may contain.
func BodyKeys() []string {
	return []string{KeyType, KeyError, KeyMessage, KeyLimit, KeyWindow, KeyPolicy}
}
