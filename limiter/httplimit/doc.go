// Package httplimit answers HTTP with a decision: the header fields of an allowed
// request, the 429 of a refused one, and a middleware for net/http that asks for the
// decision too.
//
// Every answer carries X-RateLimit-Limit, -Remaining and -Reset, and the RateLimit
// and RateLimit-Policy fields of draft-ietf-httpapi-ratelimit-headers-11; a refusal
// has Retry-After and a problem document (RFC 9457). Times are in whole seconds,
// rounded up, so that a client which waits as told is not refused again.
//
// While the store fails, an answer says so in Weir-Degraded, whatever was decided, and who
// is denied for it gets 503.
//
// A caller whose credential is bad gets 401, or 429 if the limits that count by
// address refuse it. Whoever cannot be checked gets 503.
package httplimit
