// Package httplimit decides HTTP requests and answers them. [Gate.Decide] is the one decision
// sequence of every host: read it to see what happens to a request. [Gate.Wrap] is a middleware for
// net/http; the Lambda functions use the same Gate.
//
// # The answer
//
// Every answer has X-RateLimit-Limit, -Remaining and -Reset, and the RateLimit and RateLimit-Policy
// fields of draft-ietf-httpapi-ratelimit-headers-11. A refusal is a 429 with Retry-After and a
// problem document (RFC 9457). Times are in whole seconds, rounded up, so a client that waits for
// Retry-After is not refused again. HEADERS.md describes each field.
//
// A bad credential is answered with 401, or with 429 if a limit that counts by address refuses it. A
// credential that cannot be checked is answered with 503.
//
// While the store fails, each answer has Weir-Degraded. A request that a limit with on_error "deny"
// then denies is answered with 503.
package httplimit
