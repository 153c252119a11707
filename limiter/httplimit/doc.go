// Package httplimit decides HTTP requests and answers them. [PerIP] and [FromDocument] return a complete
// middleware for net/http:
//
//	limit := httplimit.PerIP(100, time.Minute, httplimit.WithTrustedProxies("10.0.0.0/8"))
//	http.ListenAndServe(":8080", limit.Wrap(handler))
//
// [PerCaller], [WithCaller] and [FromFile] are for servers with users and files of their own.
//
// [Gate.Decide] is the decision sequence of every host: read it to learn what happens to a request. The Lambda
// functions create their Gate with [New].
//
// # The answer
//
// Every answer has the fields X-RateLimit-Limit, -Remaining and -Reset. It also has RateLimit and
// RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers-11. A refusal is a 429 with Retry-After
// and a problem document (RFC 9457). Times are in whole seconds, rounded up, so a client that waits
// for Retry-After is not refused again. HEADERS.md describes each field.
//
// A request with a bad credential gets 401, or 429 if a limit that counts by address refuses it. A
// request whose credential cannot be verified gets 503.
//
// While the store fails, each answer has Weir-Degraded. A request gets 503 if a limit with on_error
// "deny" then denies it.
package httplimit
