package contract

// FieldKeys returns, for each header field of httplimit.ExposedFields, the key of the authorizer's context that has its
// value. A gateway response refers to a value as context.authorizer.KEY.
func FieldKeys() map[string]string {
	return map[string]string{
		"Retry-After":           "retryAfter",
		"X-RateLimit-Limit":     "rateLimitLimit",
		"X-RateLimit-Remaining": "rateLimitRemaining",
		"X-RateLimit-Reset":     "rateLimitReset",
		"RateLimit-Policy":      "rateLimitPolicy",
		"RateLimit":             "rateLimit",
		"Weir-Degraded":         "degraded",
	}
}

// These are keys of the authorizer's context. The body of a refusal contains their values. API
// Gateway does not escape the values, so no value contains quotes. A refusal has all of these keys.
const (
	KeyType    = "problemType"
	KeyError   = "problemError"
	KeyMessage = "message"
	KeyLimit   = "limit" // the number of requests, as decimal digits
	KeyWait    = "wait"  // seconds until a repetition, as decimal digits, or null
	KeyWindow  = "window"
	KeyPolicy  = "policy"
)

// BodyKeys returns the keys that a body template may contain.
func BodyKeys() []string {
	return []string{KeyType, KeyError, KeyMessage, KeyWait, KeyLimit, KeyWindow, KeyPolicy}
}
