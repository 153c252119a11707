package verify

import "context"

// Row is one fact about a deployment, and the way to test it.
type Row struct {
	// ID is a stable name in kebab-case.
	ID string
	// Claim is one sentence: what must be true.
	Claim string
	// Need is the flag or the variable without which the row is skipped, or "".
	Need string
	// Requests is the maximum number of requests. Exhaust reports that the test also sends as many requests as a limit
	// admits, and some more.
	Requests int
	Exhaust  bool

	check func(*session, context.Context) Result
}

// Rows returns all rows, in the order in which [Run] tests them. If the first one fails, Run skips most others. Rows that exhaust a
// limit follow the rows that need admitted requests.
func Rows() []Row {
	return []Row{
		{
			ID: "allowed", Requests: patientCost + 1, check: (*session).allowed,
			Claim: "The store decides an admitted request, and the answer has the fields of the limit.",
		},
		{
			ID: "unauthorized", Requests: 2, check: (*session).unauthorized,
			Claim: "A request with an unknown API key gets 401 with a challenge, and so does one with an invalid token if there is an issuer.",
		},
		{
			ID: "api-key", Need: "$" + apiKeyVariable, Requests: patientCost + 1, check: (*session).validKey,
			Claim: "A request with a valid API key is admitted, and one with a new key gets 401.",
		},
		{
			ID: "token", Need: "$" + tokenVariable, Requests: patientCost + 1, check: (*session).validToken,
			Claim: "A request with a valid token is admitted, and one with another signature gets 401.",
		},
		{
			ID: "preflight", Requests: 2 + preflights, check: (*session).preflight,
			Claim: "A CORS preflight gets an answer and counts on no limit.",
		},
		{
			ID: "routes", Need: "--routes", check: (*session).eachRoute,
			Claim: "Each route that the rules limit answers with the fields of the limit.",
		},
		{
			ID: "limit-exact", Requests: patientCost + 1, Exhaust: true, check: (*session).limitExact,
			Claim: "The limit admits exactly what remains of it, even of concurrent requests. No result of the authorizer is cached.",
		},
		{
			ID: "refused", Exhaust: true, check: (*session).refused,
			Claim: "A refusal has the status 429 (not 403), the fields of the limit and a problem as its body.",
		},
		{
			ID: "forged", Requests: forgeries, Exhaust: true, check: (*session).forged,
			Claim: "A client cannot choose its address with fields of its request.",
		},
		{
			ID: "retry-after", Requests: 1, Exhaust: true, check: (*session).retryAfter,
			Claim: "A caller that waits for Retry-After is admitted.",
		},
	}
}
