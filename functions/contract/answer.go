package contract

// FieldKeys returns the keys of the authorizer's context that have the values of header fields, in the order of
// httplimit.ExposedFields. A gateway response refers to a value as context.authorizer.KEY.
func FieldKeys() []string {
	return []string{"retryAfter", "rateLimitLimit", "rateLimitRemaining", "rateLimitReset", "rateLimitPolicy", "rateLimit", "degraded"}
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
